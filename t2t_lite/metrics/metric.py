"""Metric: sacreBLEU's counts, on lines that a metric may prepare first."""

import copy
from collections.abc import Sequence
from typing import Any

import sacrebleu
from sacrebleu.metrics import BLEU, base

from t2t_lite.errors import DataError
from t2t_lite.metrics.score import CorpusMetric, Lines, Score


class Metric(CorpusMetric):
    """Scores lines as they are; a subclass may prepare either side first.

    Args:
        counter: sacreBLEU's metric, which counts n-grams and computes the score from the counts.
    """

    def __init__(self, counter: base.Metric) -> None:
        self.counter = counter
        self._of_a_line = copy.copy(counter)
        if isinstance(self._of_a_line, BLEU):  # as sacreBLEU's sentence BLEU: a short line has no 4-grams
            self._of_a_line.effective_order = True

    @property
    def kind(self) -> str:  # type: ignore[override]
        """What files call its scores: "bleu", "chrf" or "ter"."""
        return type(self.counter).__name__.lower()

    @property
    def signature(self) -> str:  # type: ignore[override]
        """How a score against one reference is computed, in sacreBLEU's words; these exist only after a score."""
        return self.score(["a"], ["a"]).signature

    def hypothesis(self, line: str) -> str:
        """Returns a translation as the counter should see it."""
        return line

    def reference(self, line: str) -> str:
        """Returns a reference as the counter should see it."""
        return line

    def score(self, hypotheses: Lines, references: Lines, sources: Lines = (), others: Sequence[Lines] = ()) -> Score:
        """Returns the corpus score of line N of the hypotheses against line N of each of the references.

        Args:
            sources: not looked at.
            others: further references of each line.

        Raises:
            DataError: no lines, or unequal counts.
        """
        check_lines(hypotheses, references, *others)
        counts = self.counter._extract_corpus_statistics(
            [self.hypothesis(line) for line in hypotheses],
            [[self.reference(line) for line in lines] for lines in (references, *others)],
        )
        result = self.counter._aggregate_and_compute(counts)
        signature = str(self.counter.get_signature())
        prefix = f"{result.name}|{signature} = {result.score:.2f}"
        detail = result.format(signature=signature).removeprefix(prefix).strip()
        segments = [float(self._of_a_line._compute_score_from_stats(line).score) for line in counts]
        return Score(result.name, float(result.score), signature, detail, segments, counts)

    def from_counts(self, counts: Any) -> float:
        """Returns sacreBLEU's score of the counts, in their precision."""
        score: float = self.counter._compute_score_from_stats(counts).score
        return score


def check_lines(hypotheses: Lines, *references: Lines) -> None:
    """Raises DataError unless there are lines, and as many hypotheses as references of each kind."""
    for lines in references:
        if isinstance(hypotheses, str) or isinstance(lines, str):
            raise TypeError("Give a list of lines each, not one string: its characters would be taken for lines.")
        if len(hypotheses) != len(lines):
            raise DataError(
                f"There are {len(hypotheses):,} hypotheses but {len(lines):,} references; "
                "line N of one is scored against line N of the other."
            )
    if not hypotheses:
        raise DataError("There is nothing to score: no hypotheses and no references.")


def comparable_signature(metric: CorpusMetric) -> str:
    """A metric's signature without sacreBLEU's version, as an update of sacreBLEU leaves scores as they are."""
    return metric.signature.replace(f"|version:{sacrebleu.__version__}", "")
