"""Accuracy of whole outputs, as tensor2tensor's accuracy_per_sequence: the share that equal their references."""

from collections.abc import Sequence
from typing import Any

from t2t_lite.metrics.metric import Metric, check_lines
from t2t_lite.metrics.score import Lines, Score


class SequenceAccuracy(Metric):
    """Share of the outputs that are right, in percent; of several references, one has to be met.

    White space at the ends does not count, and inside it counts as one space, as in a vocabulary's pieces.

    Args:
        lowercase: compare without case.
    """

    kind = "accuracy_per_sequence"  # dev_accuracy is that of single pieces

    def __init__(self, *, lowercase: bool = False) -> None:
        self._lowercase = lowercase

    def score(self, hypotheses: Lines, references: Lines, sources: Lines = (), others: Sequence[Lines] = ()) -> Score:
        check_lines(hypotheses, references, *others)
        sides = [map(self._fold, lines) for lines in (hypotheses, references, *others)]
        counts = [(int(output in wanted), 1) for output, *wanted in zip(*sides, strict=True)]
        right = sum(hit for hit, _ in counts)
        signature = f"nrefs:{1 + len(others)}|case:{'lc' if self._lowercase else 'mixed'}|space:folded"
        detail, segments = f"({right:,} of {len(counts):,} outputs right)", [100.0 * hit for hit, _ in counts]
        return Score("accuracy", 100 * right / len(counts), signature, detail, segments, counts)

    def from_counts(self, counts: Any) -> float:
        return 100 * int(counts[0]) / int(counts[1])

    def _fold(self, line: str) -> str:
        text = " ".join(line.split())
        return text.lower() if self._lowercase else text
