"""Scores against what sacreBLEU's own command prints.

The numbers were made with `sacrebleu references -i hypotheses -f text -w 6` and the flags named beside them
(sacrebleu 2.6.0).
"""

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


@pytest.mark.parametrize("metric", names.METRICS.names())
def test_lines_that_do_not_go_together(metric: str) -> None:
    found = names.metric(metric, "de")
    with pytest.raises(DataError, match="There are 4 hypotheses but 3 references"):
        found.score(HYPOTHESES, REFERENCES[:3])
    with pytest.raises(DataError, match="nothing to score"):
        found.score([], [])
    with pytest.raises(TypeError, match="a list of lines"):
        found.score("abc", "abc")


def test_unknown_names() -> None:
    with pytest.raises(UsageError, match=r"no metric called 'blue'.*Did you mean 'bleu'"):
        names.metric("blue")
    with pytest.raises(UsageError, match=r"no tokeniser '13b'; known: 13a, .*ko-mecab, flores200\. Did you mean '13a'"):
        bleu.bleu(tokenize="13b")
