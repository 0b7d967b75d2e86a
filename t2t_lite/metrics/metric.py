"""Metric: sacreBLEU's counts, on lines that a metric may prepare first."""

from __future__ import annotations

from collections.abc import Sequence

import sacrebleu
from sacrebleu.metrics import base

from t2t_lite.errors import DataError
from t2t_lite.metrics.score import CorpusMetric, Score


class Metric:
    """Scores lines as they are; a subclass may prepare either side first.

    Args:
        counter: sacreBLEU's metric, which counts n-grams and computes the score from the counts.
    """

    def __init__(self, counter: base.Metric) -> None:
        self.counter = counter

    @property
    def kind(self) -> str:
        """What files call its scores: "bleu", "chrf" or "ter"."""
        return type(self.counter).__name__.lower()

    @property
    def signature(self) -> str:
        """How a score against one reference is computed, in sacreBLEU's words; these exist only after a score."""
        return self.score(["a"], ["a"]).signature

    def hypothesis(self, line: str) -> str:
        """Returns a translation as the counter should see it."""
        return line

    def reference(self, line: str) -> str:
        """Returns a reference as the counter should see it."""
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


def comparable_signature(metric: CorpusMetric) -> str:
    """A metric's signature without sacreBLEU's version, as an update of sacreBLEU leaves scores as they are."""
    return metric.signature.replace(f"|version:{sacrebleu.__version__}", "")


def _check_lines(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Raises DataError unless there are as many hypotheses as references, and at least one."""
    if isinstance(hypotheses, str) or isinstance(references, str):
        raise TypeError("Give a list of lines each, not one string: its characters would be taken for lines.")
    if len(hypotheses) != len(references):
        raise DataError(
            f"There are {len(hypotheses):,} hypotheses but {len(references):,} references; "
            "line N of one is scored against line N of the other."
        )
    if not hypotheses:
        raise DataError("There is nothing to score: no hypotheses and no references.")
