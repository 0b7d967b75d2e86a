"""The score of several target languages is the mean of their own scores."""

import pytest
import sacrebleu

from t2t_lite.errors import DataError
from t2t_lite.metrics import names
from t2t_lite.metrics.per_language import PerLanguage, split_by_language

GERMAN = (["der Hund sieht die Katze heute"], ["der Hund sieht eine Katze heute"], ["de the dog"])
CHINESE = (["这只狗看见一只猫", "老师"], ["这只狗看见那只猫", "老师"], ["zh the dog", "zh teacher"])


def _target_of(source: str) -> str:
    return source.partition(" ")[0]


def test_each_language_has_its_tokeniser_and_counts_alike() -> None:
    metric = PerLanguage({language: names.metric("bleu", language) for language in ("de", "zh", "fr")}, _target_of)
    sides = [[c[0], g[0], *c[1:], ""] for g, c in zip(GERMAN, CHINESE, strict=True)]  # mixed; the last one is blank
    german = sacrebleu.corpus_bleu(GERMAN[0], [GERMAN[1]]).score
    chinese = sacrebleu.corpus_bleu(CHINESE[0], [CHINESE[1]], tokenize="zh").score
    score = metric.score(*sides)
    assert 0 < german != chinese > 0
    assert score.value == pytest.approx((german + chinese) / 2)
    assert score.detail == f"(de {german:.2f}, zh {chinese:.2f})"
    assert (metric.kind, score.name) == ("bleu", "BLEU")
    assert score.signature.startswith("mean:de+zh+fr|nrefs:1|")
    assert "tok:13a" in score.signature
    assert "tok:zh" in score.signature


def test_lines_by_language() -> None:
    found = split_by_language(["a", "b", "c", ""], ["A", "B", "C", ""], ["x 1", "y 2", "x 3", ""], _target_of)
    assert found == {"x": (["a", "c"], ["A", "C"], ["x 1", "x 3"]), "y": (["b"], ["B"], ["y 2"])}
    with pytest.raises(DataError, match="No source names one of the languages de"):
        PerLanguage({"de": names.metric("bleu", "de")}, _target_of).score(["a"], ["A"], ["x 1"])
