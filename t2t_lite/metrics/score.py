"""Score and CorpusMetric: what a metric of a problem gives, and what it must have.

Nothing else is imported here: problems name their metrics, and listing problems loads no library that counts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol


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

    @property
    def signature(self) -> str:
        """How the scores are computed, as each of them says."""

    def score(self, hypotheses: Sequence[str], references: Sequence[str], /) -> Score:
        """Returns the score of line N of the hypotheses against line N of the references."""
