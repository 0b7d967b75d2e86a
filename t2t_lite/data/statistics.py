"""Statistics of a plan's batches: sentences, tokens and padding (section 5.1), for t2t-lite-datagen --describe."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PlanStatistics:
    """Sums over one epoch; tokens are pieces, including end symbols, and a place holds a token or padding."""

    pairs: int
    left_out: int  # pairs with a side longer than max_length
    steps: int
    source_tokens: int
    target_tokens: int
    source_places: int
    target_places: int
    shapes: int  # different (rows, source length, target length) of batches

    @property
    def padded_tokens(self) -> int:
        """Places on both sides."""
        return self.source_places + self.target_places

    @property
    def waste(self) -> float:
        """Share of the places that hold padding."""
        return 1 - (self.source_tokens + self.target_tokens) / self.padded_tokens

    def format(self, max_length: int) -> str:
        """Returns a table for people; `max_length` is the recipe's."""
        total = self.pairs + self.left_out
        rows = [
            ("updates per epoch", f"{self.steps:,}"),
            ("sentences per update", f"{self.pairs / self.steps:,.1f}"),
            ("source tokens per update", self._side(self.source_tokens, self.source_places)),
            ("target tokens per update", self._side(self.target_tokens, self.target_places)),
            ("waste", f"{self.waste:.1%} of all places"),
            ("shapes of batches", f"{self.shapes}"),
            ("left out", f"{self.left_out:,} of {total:,} pairs, longer than max_length={max_length}"),
        ]
        return "\n".join(f"  {name:<26}{value}" for name, value in rows)

    def _side(self, tokens: int, places: int) -> str:
        return f"{tokens / self.steps:,.0f} in {places / self.steps:,.0f} places, {1 - tokens / places:.1%} padding"
