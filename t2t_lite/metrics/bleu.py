"""BLEU and chrF of detokenised lines, by sacreBLEU, each with the signature that says how it was computed.

METRICS holds the scores that a problem may name as its `metric`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial

from sacrebleu.metrics import BLEU, CHRF

from t2t_lite.errors import DataError, UsageError, did_you_mean

TOKENIZERS = ("13a", "intl", "none", "char")


@dataclasses.dataclass(frozen=True)
class Score:
    """One corpus score.

    Attributes:
        name: as sacreBLEU prints it, such as "BLEU" or "chrF2".
        value: 0 to 100.
        signature: sacreBLEU's, to be published beside the value.
        detail: what the value is made of (n-gram precisions, brevity penalty), or "".
    """

    name: str
    value: float
    signature: str
    detail: str

    def format(self) -> str:
        """Returns one line, the same as sacreBLEU's own."""
        return f"{self.name}|{self.signature} = {self.value:.2f} {self.detail}".rstrip()


def bleu(
    hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False, tokenize: str = "13a"
) -> Score:
    """Returns corpus BLEU of line N of the hypotheses against line N of the references.

    Args:
        lowercase: compare without case.
        tokenize: one of TOKENIZERS: "13a" (WMT's mteval-v13a), "intl" (mteval-v14's), "none" (for text that is
            tokenised already, split at spaces) or "char".

    Raises:
        DataError: no lines, or unequal counts.
        UsageError: an unknown tokeniser.
    """
    if tokenize not in TOKENIZERS:
        raise UsageError(
            f"BLEU: there is no tokeniser {tokenize!r}; known: {', '.join(TOKENIZERS)}."
            f"{did_you_mean(tokenize, TOKENIZERS)}"
        )
    # force: text that is tokenised already is no oversight where "none" was asked for.
    metric = BLEU(lowercase=lowercase, tokenize=tokenize, force=tokenize == "none")
    return _corpus_score(metric, hypotheses, references)


def chrf(hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False) -> Score:
    """Returns corpus chrF2 (character 6-grams, beta 2, no word n-grams); errors as for `bleu`."""
    return _corpus_score(CHRF(lowercase=lowercase), hypotheses, references)


METRICS: dict[str, Callable[[Sequence[str], Sequence[str]], Score]] = {
    "bleu": bleu,
    "bleu_lc": partial(bleu, lowercase=True),
    "bleu_tok_lc": partial(bleu, lowercase=True, tokenize="none"),
    "chrf": chrf,
}


def score(metric: str, hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Returns the score called `metric`, one of METRICS; another name raises UsageError."""
    if metric not in METRICS:
        raise UsageError(
            f"There is no metric called {metric!r}; known: {', '.join(METRICS)}.{did_you_mean(metric, METRICS)}"
        )
    return METRICS[metric](hypotheses, references)


def _corpus_score(metric: BLEU | CHRF, hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    if isinstance(hypotheses, str) or isinstance(references, str):
        raise TypeError("Give a list of lines each, not one string: its characters would be taken for lines.")
    if len(hypotheses) != len(references):
        raise DataError(
            f"There are {len(hypotheses):,} hypotheses but {len(references):,} references; "
            "line N of one is scored against line N of the other."
        )
    if not hypotheses:
        raise DataError("There is nothing to score: no hypotheses and no references.")
    result = metric.corpus_score(hypotheses, [references])
    signature = str(metric.get_signature())
    prefix = f"{result.name}|{signature} = {result.score:.2f}"
    detail = result.format(signature=signature).removeprefix(prefix).strip()
    return Score(result.name, float(result.score), signature, detail)
