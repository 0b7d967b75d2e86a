"""Accuracy of whole outputs: what counts as right and its signature."""

import pytest

from t2t_lite.metrics import names
from t2t_lite.metrics.accuracy import SequenceAccuracy
from t2t_lite.metrics.metric import comparable_signature

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
