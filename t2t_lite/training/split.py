"""Split of a global batch's rows into parts, over devices and accumulation steps.

Part p has the rows from p * n on, of n = `part_rows`, and belongs to device p mod R of R devices. What is drawn for a
row depends on its number in the global batch alone (layers/dropout.py), and losses are divided by the global number of
tokens, so any split gives the same update, up to the order of sums. Rows are added at the end where they do not come
out even; without labels, they count nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

Batch = Mapping[str, np.ndarray]


class Split(NamedTuple):
    """How rows are split.

    devices: of all workers together.
    accumulate: parts of a device's share, which it computes one after the other.
    balance_groups: as in `models.base.Model`; a part has whole groups.
    """

    devices: int
    accumulate: int
    balance_groups: int = 0

    @property
    def parts(self) -> int:
        """The number of parts."""
        return self.devices * self.accumulate

    @property
    def part_groups(self) -> int:
        """The number of groups in a part; 0 without groups."""
        return -(-self.balance_groups // self.parts)

    def part_rows(self, rows: int) -> int:
        """Returns the number of rows of a part, where a batch has `rows`."""
        if self.balance_groups:
            return -(-rows // self.balance_groups) * self.part_groups
        return -(-rows // self.parts)

    def in_words(self) -> str:
        """How a batch is split, for the log."""
        shares = f"{self.devices} shares of " if self.devices > 1 else ""
        parts = f"{self.accumulate} parts" if self.accumulate > 1 else "one part"
        return f"a batch is {shares}{parts} (--accumulate={self.accumulate})"

    def warning(self) -> str | None:
        """Returns a warning if some devices have no groups of rows and so no work, else None."""
        groups = self.balance_groups
        busy = -(-groups // self.part_groups) if groups else self.devices
        if busy >= self.devices:
            return None
        return (
            f"warning: {busy} of {self.devices} devices have work. Each takes whole groups of rows, of which the "
            f"recipe has balance_groups={groups}."
        )

    def is_finest(self, rows: int) -> bool:
        """Whether more parts would not be smaller."""
        return self.part_groups == 1 or self.part_rows(rows) == 1

    def cut(self, batch: Batch) -> dict[str, np.ndarray]:
        """Returns arrays [devices, accumulate, n, length] of a batch's arrays [rows, length], padded with 0."""
        cut = {}
        for name, array in batch.items():
            rows, length = array.shape
            n = self.part_rows(rows)
            more = self.parts * n - rows
            whole = np.pad(array, ((0, more), (0, 0))) if more else array
            cut[name] = whole.reshape(self.accumulate, self.devices, n, length).swapaxes(0, 1)
        return cut
