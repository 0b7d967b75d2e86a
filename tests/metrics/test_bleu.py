"""Scores against what sacreBLEU's own command prints.

The numbers were made with `sacrebleu references -i hypotheses -f text -w 6` and the flags named beside them
(sacrebleu 2.6.0).
"""

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
import sacrebleu

from t2t_lite.errors import DataError, UsageError
from t2t_lite.metrics import bleu, names

REFERENCES = ["The cat sat on the mat.", "A dog, small and brown, runs.", "Hello World!", "„Hallo“, sagt er."]
HYPOTHESES = ["The cat is on the mat.", "The dog, small and Brown, runs.", "hello world!", '"Hallo", sagt er .']


@pytest.mark.parametrize(
    ("lowercase", "tokenize", "value", "detail"),
    [
        (False, "13a", 42.118134, "69.2/54.5/38.9/21.4 (BP = 1.000 ratio = 1.083 hyp_len = 26 ref_len = 24)"),
        (True, "13a", 65.089114, "80.8/72.7/61.1/50.0 (BP = 1.000 ratio = 1.083 hyp_len = 26 ref_len = 24)"),  # -lc
        (False, "none", 23.073733, "55.6/35.7/20.0/7.1 (BP = 1.000 ratio = 1.059 hyp_len = 18 ref_len = 17)"),
        (False, "intl", 42.691301, "73.1/54.5/38.9/21.4 (BP = 1.000 ratio = 1.000 hyp_len = 26 ref_len = 26)"),
        (False, "char", 73.717856, "87.0/78.5/70.5/61.4 (BP = 1.000 ratio = 1.015 hyp_len = 69 ref_len = 68)"),
        (True, "none", 46.602175, "72.2/57.1/40.0/28.6 (BP = 1.000 ratio = 1.059 hyp_len = 18 ref_len = 17)"),
    ],
)
def test_bleu_is_what_sacrebleu_prints(lowercase: bool, tokenize: str, value: float, detail: str) -> None:
    score = bleu.bleu(lowercase=lowercase, tokenize=tokenize).score(HYPOTHESES, REFERENCES)
    assert score.name == "BLEU"
    assert score.value == pytest.approx(value, abs=1e-6)
    assert score.detail == detail
    case = "lc" if lowercase else "mixed"
    assert score.signature.startswith(f"nrefs:1|case:{case}|eff:no|tok:{tokenize}|smooth:exp|version:")


@pytest.mark.parametrize(("lowercase", "value"), [(False, 65.723349), (True, 80.023061)])
def test_chrf_is_what_sacrebleu_prints(lowercase: bool, value: float) -> None:
    score = bleu.chrf(lowercase=lowercase).score(HYPOTHESES, REFERENCES)
    assert score.name == "chrF2"
    assert score.value == pytest.approx(value, abs=1e-6)
    assert score.detail == ""
    case = "lc" if lowercase else "mixed"
    assert score.signature.startswith(f"nrefs:1|case:{case}|eff:yes|nc:6|nw:0|space:no|version:")


def test_the_score_of_a_line_is_what_sacrebleu_gives_a_sentence() -> None:
    pairs = list(zip(HYPOTHESES, [[line] for line in REFERENCES], strict=True))
    for metric, sentence in (
        (bleu.bleu(), sacrebleu.sentence_bleu),  # of the orders that the line is long enough for
        (bleu.chrf(), sacrebleu.sentence_chrf),
        (bleu.ter(), sacrebleu.sentence_ter),
    ):
        found = metric.score(HYPOTHESES, REFERENCES)
        assert found.segments == [pytest.approx(sentence(*pair).score) for pair in pairs]
        assert found.as_dict().keys() == {"name", "value", "signature", "detail"}


def test_brevity_penalty_by_hand() -> None:
    """4 of 4 words right, the reference has 5: exp(1 - 5/4) and perfect precisions."""
    score = bleu.bleu(tokenize="none").score(["a b c d"], ["a b c d e"])
    assert score.value == pytest.approx(77.880078, abs=1e-6)
    assert score.detail.startswith("100.0/100.0/100.0/100.0 (BP = 0.779")


@pytest.mark.parametrize(
    ("metric", "value"), [("bleu", 42.118134), ("bleu_lc", 65.089114), ("bleu_tok_lc", 46.602175), ("chrf", 65.723349)]
)
def test_score_by_name(metric: str, value: float) -> None:
    assert names.metric(metric).score(HYPOTHESES, REFERENCES).value == pytest.approx(value, abs=1e-6)


def test_metrics_are_those_a_problem_may_name() -> None:
    assert set(names.METRICS.names()) >= set("bleu bleu_lc bleu_tok_lc chrf chrf2 bleu_paper accuracy".split())


@pytest.mark.parametrize("name", ["chrf2", "chrf++", "chrF++", "chrF2++", "chrfpp"])
def test_chrf_with_words_is_what_sacrebleu_prints(name: str) -> None:
    """`-m chrf --chrf-word-order 2`."""
    score = names.metric(name).score(HYPOTHESES, REFERENCES)
    assert (score.name, score.value) == ("chrF2++", pytest.approx(66.168087, abs=1e-6))
    assert score.signature.startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:2|space:no|version:")


def test_an_effective_order_leaves_out_orders_that_no_output_reaches() -> None:
    short = ["Save", "Open file", "Copy it"]
    assert names.metric("bleu").score(short, short).value == 0
    score = names.metric("bleu", effective_order=True).score(short, short)
    assert score.value == pytest.approx(100)
    assert "|eff:yes|" in score.signature
    assert names.metric("bleu", effective_order=True).score(HYPOTHESES, REFERENCES).value == pytest.approx(42.118134)
    for name in ("chrf", "chrf2", "accuracy", "bleu_paper"):
        with pytest.raises(UsageError, match="--bleu_effective_order goes with --metric=bleu, bleu_lc, bleu_tok_lc"):
            names.metric(name, "de", effective_order=True)


def test_format_is_one_line_as_sacrebleu_prints_it() -> None:
    score = bleu.bleu().score(HYPOTHESES, REFERENCES)
    assert score.format() == f"BLEU|{score.signature} = 42.12 {score.detail}"
    chrf = bleu.chrf().score(HYPOTHESES, REFERENCES)
    assert chrf.format() == f"chrF2|{chrf.signature} = 65.72"


def test_the_same_text_is_100_and_nothing_in_common_is_0() -> None:
    assert bleu.bleu().score(REFERENCES, REFERENCES).value == pytest.approx(100)
    assert bleu.chrf().score(REFERENCES, REFERENCES).value == pytest.approx(100)
    assert bleu.bleu().score(["x y z w"], ["a b c d"]).value == 0
    assert bleu.bleu().score([""], ["a b c d"]).value == 0  # an empty translation counts; it does not fail


def test_the_score_is_of_the_corpus_not_the_mean_of_its_lines() -> None:
    both = bleu.bleu().score(HYPOTHESES[:2], REFERENCES[:2]).value
    apart = [bleu.bleu().score([h], [r]).value for h, r in zip(HYPOTHESES[:2], REFERENCES[:2], strict=True)]
    assert abs(both - sum(apart) / 2) > 0.1


@pytest.mark.parametrize("metric", names.METRICS.names())
def test_unequal_counts_name_both(metric: str) -> None:
    with pytest.raises(DataError, match="There are 4 hypotheses but 3 references"):
        names.metric(metric, "de").score(HYPOTHESES, REFERENCES[:3])


@pytest.mark.parametrize("metric", names.METRICS.names())
def test_nothing_to_score(metric: str) -> None:
    with pytest.raises(DataError, match="nothing to score"):
        names.metric(metric, "de").score([], [])


def test_unknown_names() -> None:
    with pytest.raises(UsageError, match=r"no metric called 'blue'.*Did you mean 'bleu'"):
        names.metric("blue")
    with pytest.raises(UsageError, match=r"no tokeniser '13b'; known: 13a, .*ko-mecab, flores200\. Did you mean '13a'"):
        bleu.bleu(tokenize="13b")


def test_the_language_matters_to_the_metric_of_the_paper_only() -> None:
    assert names.metric("bleu", "target").score(HYPOTHESES, REFERENCES) == names.metric("bleu").score(
        HYPOTHESES, REFERENCES
    )
    for language in ("", "target", "fi", "FI"):
        with pytest.raises(
            UsageError, match=f"BLEU-paper is not defined for text in '{language}', only .*: de, en, fr"
        ):
            names.metric("bleu_paper", language)


def test_one_string_is_not_a_list_of_lines() -> None:
    with pytest.raises(TypeError, match="a list of lines"):
        bleu.bleu().score("abc", "abc")


def test_real_text_scores_100_against_itself(shared_data: Callable[[str], Path]) -> None:
    """The 1000 lines of the test set, cased and tokenised variants, with one damaged line."""
    with gzip.open(shared_data("multi30k") / "test_2016_flickr.de.gz", "rt", encoding="utf-8", newline="\n") as file:
        lines = file.read().removesuffix("\n").split("\n")
    assert len(lines) == 1000
    assert names.metric("bleu").score(lines, lines).value == pytest.approx(100)
    damaged = ["", *lines[1:]]
    assert 99 < names.metric("bleu_lc").score(damaged, lines).value < 100
