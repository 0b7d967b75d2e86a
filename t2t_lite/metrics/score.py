"""Score and CorpusMetric: what a metric returns, and the base class of metrics.

No library that counts is imported here: problems name their metrics, and listing problems must not load any.
"""

from __future__ import annotations

import abc
import dataclasses
import math
import numbers
from collections.abc import Sequence
from typing import Any

from t2t_lite.errors import UsageError


@dataclasses.dataclass(frozen=True)
class Score:
    """One corpus score.

    Attributes:
        name: as sacreBLEU prints it, such as "BLEU" or "chrF2"; for a metric that sacreBLEU does not have, its own.
        value: 0 to 100, higher is better; for TER 0 or more, lower is better.
        signature: how it was computed, to be published beside the value.
        detail: what the value is made of (n-gram precisions, brevity penalty), or "".
        segments: the score of each line, or () if the metric has none.
        counts: of each line the numbers whose sums `CorpusMetric.from_counts` makes the value from, [lines, n]; None:
            the value is the mean of the segments.
    """

    name: str
    value: float
    signature: str
    detail: str
    segments: Sequence[float] = dataclasses.field(default=(), compare=False, repr=False)
    counts: Any = dataclasses.field(default=None, compare=False, repr=False)

    def format(self) -> str:
        """Returns one line, as sacreBLEU's own."""
        return f"{self.name}|{self.signature} = {self.value:.2f} {self.detail}".rstrip()

    def as_dict(self) -> dict[str, Any]:
        """Returns the attributes, JSON-ready, without those of single lines."""
        return {name: value for name, value in vars(self).items() if name not in ("segments", "counts")}


class CorpusMetric(abc.ABC):
    """A metric. One of your own is registered with `registry.register_metric`.

    It is made with one argument, the code of the target language, such as "de".

    Attributes:
        kind: what files call its scores.
        signature: how the scores are computed, as stated in each of them.
    """

    kind: str = "score"
    signature: str

    @abc.abstractmethod
    def score(self, hypotheses: Sequence[str], references: Sequence[str], sources: Sequence[str]) -> Score:
        """Returns the score of the hypotheses; line N of the references and of the sources belongs to their line N."""

    def from_counts(self, counts: Any) -> float:
        """Returns the value from the counts of `Score.counts`, [n], summed over lines; the mean if there are none."""
        return float(counts[0] / counts[1])


def scored(metric: CorpusMetric, hypotheses: Sequence[str], references: Sequence[str], sources: Sequence[str]) -> Score:
    """Returns the score by a metric; UsageError if a user's own metric returns something else."""
    found = metric.score(hypotheses, references, sources)
    value: Any = getattr(found, "value", None)
    finite = isinstance(value, numbers.Real) and math.isfinite(value)
    if not isinstance(found, Score) or not finite:
        raise UsageError(no_score(metric, found))
    # JSON does not take NumPy's numbers.
    return found if isinstance(value, int | float) else dataclasses.replace(found, value=float(value))


def no_score(metric: CorpusMetric, found: object) -> str:
    """The error of a metric that returned something else than a score."""
    return (
        f"{type(metric).__name__}.score returned {found!r:.80}; a metric returns a "
        "t2t_lite.metrics.score.Score(name, value, signature, detail), whose value is a finite number."
    )
