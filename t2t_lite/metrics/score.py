"""Score and CorpusMetric: what a metric returns, the base class of metrics, and the check of one before any long work.

No library that counts is imported here: problems name their metrics, and listing problems must not load any.
"""

import abc
import dataclasses
import inspect
import math
import numbers
from collections.abc import Sequence
from typing import Any

from t2t_lite.errors import UsageError

Lines = Sequence[str]


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
    def score(self, hypotheses: Lines, references: Lines, sources: Lines) -> Score:
        """Returns the score of the hypotheses; line N of the references and of the sources belongs to their line N."""

    def from_counts(self, counts: Any) -> float:
        """Returns the value from the counts of `Score.counts`, [n], summed over lines; the mean if there are none."""
        return float(counts[0] / counts[1])


def score_lines(metric: CorpusMetric, hypotheses: Lines, references: Lines, sources: Lines) -> Score:
    """Returns the score by a metric; UsageError if a user's own metric returns something else."""
    found = metric.score(hypotheses, references, sources)
    if not _is_score(found) or not math.isfinite(found.value):
        raise _no_score(metric, found)
    # JSON does not take NumPy's numbers.
    return found if isinstance(found.value, int | float) else dataclasses.replace(found, value=float(found.value))


def _is_score(found: object) -> bool:
    return isinstance(found, Score) and isinstance(found.value, numbers.Real)


def _no_score(metric: CorpusMetric, found: object) -> UsageError:
    return UsageError(
        f"{type(metric).__name__}.score returned {found!r:.80}; a metric returns a "
        "t2t_lite.metrics.score.Score(name, value, signature, detail), whose value is a finite number."
    )


def check_metric(metric: CorpusMetric, where: str) -> CorpusMetric:
    """Returns a metric, after a trial on one line.

    Args:
        where: who has made it, with which errors begin, such as "The problem 'toy_ende'".

    Raises:
        UsageError: it is not a metric, returns no score, or is TER, of which lower scores are better.
    """
    what = f"{where} has the metric {metric!r:.80}, which"
    if not isinstance(metric, CorpusMetric):
        raise UsageError(f"{what} is no metric; derive it from t2t_lite.metrics.score.CorpusMetric.")
    if not isinstance(getattr(metric, "signature", None), str):
        raise UsageError(f"{what} has no signature, which is text that says how its scores are computed.")
    if metric.kind == "ter" and metric.score(["a"], ["b"], ["a"]).value > 0:  # not of a subclass that negates it
        raise UsageError(
            f"{where} has the metric TER. Lower is better there, so the worst checkpoint would be taken for the best. "
            "Return a subclass whose score is negative, or another metric."
        )
    try:
        inspect.signature(metric.score).bind(["a"], ["a"], ["a"])
    except TypeError as error:
        name = type(metric).__name__
        raise UsageError(f"{name}.score has to take (hypotheses, references, sources): {error}.") from error
    try:
        found = metric.score(["a"], ["a"], ["a"])
    except Exception:  # perhaps its references are never such a line
        return metric
    if not _is_score(found):
        raise _no_score(metric, found)
    return metric
