"""METRICS: the metrics that a problem may choose, by name. Imports nothing that counts.

Each is a function, or a class, of the target language's code, such as "de". BLEU's have options besides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from t2t_lite.errors import UsageError
from t2t_lite.metrics.score import CorpusMetric
from t2t_lite.name_table import Registry

if TYPE_CHECKING:
    from t2t_lite.metrics.metric import Metric

METRICS: Registry[Callable[..., CorpusMetric]] = Registry("metric")
BLEU = ("bleu", "bleu_lc", "bleu_tok_lc", "bleu_paper")
OF_SACREBLEU = BLEU[:3]
TOKENISING = BLEU[:2]  # those whose tokeniser may be chosen
# chrF++ has many spellings; sacreBLEU prints it as chrF2++. tensor2tensor's accuracy_per_sequence is accuracy here.
_OTHERS = {
    **dict.fromkeys(("chrf++", "chrfpp", "chrf2++", "chrf2pp"), "chrf2"),
    "accuracy_per_sequence": "accuracy",
}


def canonical(name: str) -> str:
    """Returns the name in METRICS for another spelling, such as "chrf2" for "chrF++"; other names as they are."""
    return _OTHERS.get(name.lower(), name)


def metric(
    name: str, language: str = "", tokenize: str | None = None, *, effective_order: bool = False
) -> CorpusMetric:
    """Returns the metric `name`, of METRICS or another spelling of it, for a target language such as "de".

    Args:
        tokenize, effective_order: BLEU's options, as in `bleu.bleu`.

    Raises:
        UsageError: another name, a language for which the metric is not defined, or an option that is not the metric's.
    """
    name = canonical(name)
    make = METRICS.get(name)
    if tokenize is not None and name not in TOKENISING:
        raise UsageError(f"--bleu_tokenize={tokenize} goes with --metric={' or '.join(TOKENISING)}, not with {name}.")
    if effective_order and name not in OF_SACREBLEU:
        raise UsageError(f"--bleu_effective_order goes with --metric={', '.join(OF_SACREBLEU)}, not with {name}.")
    options = {"tokenize": tokenize, "effective_order": effective_order}
    return make(language, **{option: value for option, value in options.items() if value})


def case_and_tokenizer(name: str, tokenize: str | None) -> tuple[bool, str | None]:
    """Returns whether the BLEU called `name` lowercases, and its tokeniser: `tokenize`, unless it has its own."""
    return name in ("bleu_lc", "bleu_tok_lc"), "none" if name == "bleu_tok_lc" else tokenize


@METRICS.register("bleu")
def _bleu(language: str, tokenize: str | None = None, effective_order: bool = False) -> Metric:
    """BLEU as sacreBLEU computes it, cased."""
    from t2t_lite.metrics.bleu import bleu

    return bleu(tokenize=tokenize, language=language, effective_order=effective_order)


@METRICS.register("bleu_lc")
def _bleu_lc(language: str, tokenize: str | None = None, effective_order: bool = False) -> Metric:
    """BLEU as sacreBLEU computes it, without case."""
    from t2t_lite.metrics.bleu import bleu

    return bleu(lowercase=True, tokenize=tokenize, language=language, effective_order=effective_order)


@METRICS.register("bleu_tok_lc")
def _bleu_tok_lc(language: str, effective_order: bool = False) -> Metric:
    """BLEU of text that is tokenised already, without case."""
    from t2t_lite.metrics.bleu import bleu

    return bleu(lowercase=True, tokenize="none", language=language, effective_order=effective_order)


@METRICS.register("bleu_paper")
def _bleu_paper(language: str) -> Metric:
    """BLEU as the paper's authors computed it, for de, en and fr."""
    from t2t_lite.metrics.paper_bleu import PaperBleu

    return PaperBleu(language)


@METRICS.register("chrf")
def _chrf(language: str) -> Metric:
    """chrF2: character 6-grams."""
    from t2t_lite.metrics.bleu import chrf

    return chrf()


@METRICS.register("chrf2")
def _chrf2(language: str) -> Metric:
    """chrF2++: words and pairs of words as well."""
    from t2t_lite.metrics.bleu import chrf

    return chrf(word_order=2)


@METRICS.register("accuracy")
def _accuracy(language: str) -> Metric:
    """Share of the outputs that are entirely right."""
    from t2t_lite.metrics.accuracy import SequenceAccuracy

    return SequenceAccuracy()
