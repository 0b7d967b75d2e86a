"""Accuracy of whole outputs: what counts as right, its signature, and both paired tests on it."""

from collections.abc import Callable

import pytest

from t2t_lite.metrics import names
from t2t_lite.metrics.accuracy import SequenceAccuracy
from t2t_lite.metrics.metric import comparable_signature
from t2t_lite.metrics.significance import Comparison, paired_bootstrap, paired_randomisation

REFERENCES = ["Save", "Open file", "Cancel", "Größe ändern"]


@pytest.mark.parametrize(
    ("hypotheses", "value"),
    [
        (REFERENCES, 100),
        (["save", "Open file", "Cancel", "Größe ändern"], 75),  # case counts
        (["Save.", "Open files", "Cance", "Größe"], 0),
        ([" Save", "Open  file ", "Cancel", ""], 75),  # white space does not
    ],
)
def test_an_output_is_right_or_wrong_as_a_whole(hypotheses: list[str], value: float) -> None:
    score = names.metric("accuracy").score(hypotheses, REFERENCES)
    assert (score.name, score.value, score.signature) == ("accuracy", value, "nrefs:1|case:mixed|space:folded")
    assert score.detail == f"({value // 25} of 4 outputs right)"


def test_case_and_several_references() -> None:
    lowercase = SequenceAccuracy(lowercase=True)
    assert lowercase.score(["save", "a", "b", "GRÖSSE ändern"], REFERENCES).value == 25
    score = lowercase.score(["SAVE", "open File", "b", "c"], REFERENCES, others=[["x", "y", "B", "z"]])
    assert (score.value, score.signature) == (75, "nrefs:2|case:lc|space:folded")
    assert comparable_signature(lowercase) == lowercase.signature  # no version of sacreBLEU


@pytest.mark.parametrize("test", [paired_bootstrap, paired_randomisation])
def test_paired_tests(test: Callable[..., Comparison]) -> None:
    references = [str(n) for n in range(200)]
    ours = references[:150] + ["x"] * 50
    other = references[:100] + ["x"] * 100
    metric = SequenceAccuracy()
    score = metric.score(ours, references)
    found = test(metric, score, metric.score(other, references))
    assert (found.score.value, found.baseline.value) == (75, 50)
    assert found.p_value < 0.01
    equal = test(metric, score, metric.score(["x"] * 50 + references[50:], references))
    assert equal.p_value > 0.5
