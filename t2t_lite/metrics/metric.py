"""Score and Metric: sacreBLEU's counts, on lines that a metric may prepare first."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol

from sacrebleu.metrics import BLEU, CHRF, TER

from t2t_lite.errors import DataError


@dataclasses.dataclass(frozen=True)
class Score:
    """One corpus score.

    Attributes:
        name: as sacreBLEU prints it, such as "BLEU" or "chrF2"; a metric that sacreBLEU does not have, its own.
        value: 0 to 100, higher is better; of TER 0 or more, lower is better.
        signature: how it was computed, to be published beside the value.
        detail: what the value is made of (n-gram precisions, brevity penalty), or "".
    """

    name: str
    value: float
    signature: str
    detail: str

    def format(self) -> str:
        """Returns one line, as sacreBLEU's own."""
        return f"{self.name}|{self.signature} = {self.value:.2f} {self.detail}".rstrip()

    def as_dict(self) -> dict[str, Any]:
        """Returns the attributes, JSON-ready."""
        return dataclasses.asdict(self)


class CorpusMetric(Protocol):
    """What a problem's metric must have."""

    def score(self, hypotheses: Sequence[str], references: Sequence[str], /) -> Score:
        """Returns the score of line N of the hypotheses against line N of the references."""


def signature(metric: CorpusMetric) -> str:
    """Returns how a metric computes its scores, which it says with each: here of a line that is text and a tree."""
    line = ["(S (X a))"]
    return metric.score(line, line).signature


class Metric:
    """Scores lines as they are; a subclass may prepare either side first.

    Args:
        counter: sacreBLEU's metric, which counts n-grams and makes the score of the counts.
    """

    def __init__(self, counter: BLEU | CHRF | TER) -> None:
        self.counter = counter

    def hypothesis(self, line: str) -> str:
        """Returns a translation as the counter is to see it."""
        return line

    def reference(self, line: str) -> str:
        """Returns a reference as the counter is to see it."""
        return line

    def score(self, hypotheses: Sequence[str], *references: Sequence[str]) -> Score:
        """Returns the corpus score of line N of the hypotheses against line N of each of the references.

        Raises:
            DataError: no lines, or unequal counts.
        """
        for lines in references:
            _check_lines(hypotheses, lines)
        result = self.counter.corpus_score(
            [self.hypothesis(line) for line in hypotheses],
            [[self.reference(line) for line in lines] for lines in references],
        )
        signature = str(self.counter.get_signature())
        prefix = f"{result.name}|{signature} = {result.score:.2f}"
        detail = result.format(signature=signature).removeprefix(prefix).strip()
        return Score(result.name, float(result.score), signature, detail)


def _check_lines(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Raises DataError unless there are as many hypotheses as references, and some."""
    if isinstance(hypotheses, str) or isinstance(references, str):
        raise TypeError("Give a list of lines each, not one string: its characters would be taken for lines.")
    if len(hypotheses) != len(references):
        raise DataError(
            f"There are {len(hypotheses):,} hypotheses but {len(references):,} references; "
            "line N of one is scored against line N of the other."
        )
    if not hypotheses:
        raise DataError("There is nothing to score: no hypotheses and no references.")
