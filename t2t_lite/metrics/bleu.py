"""BLEU, chrF and TER by sacreBLEU, and BLEU as the paper's authors had it; METRICS are those a problem may name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sacrebleu.metrics import BLEU, CHRF, TER

from t2t_lite.errors import UsageError, did_you_mean
from t2t_lite.metrics.metric import Metric, Score
from t2t_lite.metrics.paper_bleu import PaperBleu

TOKENIZERS = ("13a", "intl", "none", "char")


def bleu(*, lowercase: bool = False, tokenize: str = "13a") -> Metric:
    """Returns BLEU as sacreBLEU computes it, by default of detokenised text.

    Args:
        lowercase: compare without case.
        tokenize: one of TOKENIZERS: "13a" (WMT's mteval-v13a), "intl" (mteval-v14's), "none" (for text that is
            tokenised already, split at spaces) or "char".

    Raises:
        UsageError: an unknown tokeniser.
    """
    if tokenize not in TOKENIZERS:
        raise UsageError(
            f"BLEU: there is no tokeniser {tokenize!r}; known: {', '.join(TOKENIZERS)}."
            f"{did_you_mean(tokenize, TOKENIZERS)}"
        )
    # force: text that is tokenised already is no oversight where "none" was asked for.
    return Metric(BLEU(lowercase=lowercase, tokenize=tokenize, force=tokenize == "none"))


def chrf(*, lowercase: bool = False) -> Metric:
    """Returns chrF2 (character 6-grams, beta 2, no word n-grams) as sacreBLEU computes it."""
    return Metric(CHRF(lowercase=lowercase))


def ter() -> Metric:
    """Returns TER, edits per reference word in percent, as sacreBLEU computes it by default: without case."""
    return Metric(TER())


METRICS: dict[str, Callable[[str], Metric]] = {  # of the target language
    "bleu": lambda _: bleu(),
    "bleu_lc": lambda _: bleu(lowercase=True),
    "bleu_tok_lc": lambda _: bleu(lowercase=True, tokenize="none"),
    "chrf": lambda _: chrf(),
    "bleu_paper": PaperBleu,
}


def metric(name: str, language: str = "") -> Metric:
    """Returns the metric `name`, one of METRICS, for a target language such as "de".

    Raises:
        UsageError: another name, or a language for which the metric is not defined.
    """
    if name not in METRICS:
        raise UsageError(
            f"There is no metric called {name!r}; known: {', '.join(METRICS)}.{did_you_mean(name, METRICS)}"
        )
    return METRICS[name](language)


def score(name: str, hypotheses: Sequence[str], references: Sequence[str], language: str = "") -> Score:
    """Returns the score that `metric(name, language)` gives; errors as of both."""
    return metric(name, language).score(hypotheses, references)
