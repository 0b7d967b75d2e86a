"""Score and CorpusMetric: what a metric of a problem returns, and what it must have.

No library that counts is imported here: problems name their metrics, and listing problems must not load any.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Sequence
from typing import Any, Protocol

from t2t_lite.errors import UsageError


@dataclasses.dataclass(frozen=True)
class Score:
    """One corpus score.

    Attributes:
        name: as sacreBLEU prints it, such as "BLEU" or "chrF2"; for a metric that sacreBLEU does not have, its own.
        value: 0 to 100, higher is better; for TER 0 or more, lower is better.
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

    @property
    def signature(self) -> str:
        """How the scores are computed, as stated in each of them."""

    def score(self, hypotheses: Sequence[str], references: Sequence[str], /) -> Score:
        """Returns the score of line N of the hypotheses against line N of the references."""


def scored(metric: CorpusMetric, hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Returns the score by a metric; UsageError if a user's own metric returns something else."""
    found = metric.score(hypotheses, references)
    value: Any = getattr(found, "value", None)
    finite = isinstance(value, numbers.Real) and math.isfinite(value)
    if not isinstance(found, Score) or not finite:
        raise UsageError(no_score(metric, found))
    # JSON does not take NumPy's numbers.
    return found if isinstance(value, int | float) else dataclasses.replace(found, value=float(value))


def no_score(metric: CorpusMetric, found: object) -> str:
    """The error of a metric that returned something else than a score."""
    return (
        f"{type(metric).__name__}.score returned {found!r:.80}; a metric of a problem returns a "
        "t2t_lite.metrics.score.Score(name, value, signature, detail), whose value is a finite number."
    )
