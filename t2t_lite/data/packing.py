"""Rows of fixed length that hold several pairs each: one shape instead of a dozen; pure NumPy."""

import array
from collections.abc import Iterator

import numpy as np

from t2t_lite.data.buckets import Bucket, rows_of
from t2t_lite.data.plan import Plan, PlannedBatch

Array = np.ndarray
_OPEN_ROWS = 64  # rows that still take pairs; more would pack a little tighter and slower
_CHUNK = 1 << 16  # pairs whose lengths are Python's numbers at once


class PackedPlan(Plan):
    """Batches of packed rows, `max_length` pieces wide on both sides.

    The seed fixes which pairs share a row; the order of rows is shuffled again in each epoch. (Packing again would
    change the number of rows, and so which batch is number N.)
    """

    def _arrange(self, batch_tokens: int) -> list[tuple[int, Bucket]]:
        key = {"seed": self._seed, "max_length": self.max_length}
        self._ids, self._starts = self._index.get("packed", key, self._pack)
        self._slots = int(np.diff(self._starts).max())
        self._rows = rows_of(self.max_length, batch_tokens)
        self._epoch: tuple[int, Array] | None = None
        return [(-(-(len(self._starts) - 1) // self._rows), Bucket(self.max_length, self.max_length, self._rows))]

    def _pack(self) -> tuple[Array, Array]:
        order = np.random.default_rng([self._seed, 0]).permutation(self._kept)
        return pack(order, *self._lengths, self.max_length)

    def batch(self, step: int) -> PlannedBatch:
        epoch, index = divmod(step - 1, self.steps_per_epoch)
        if self._epoch is None or self._epoch[0] != epoch:
            random = np.random.default_rng([self._seed, 1, epoch])
            self._epoch = (epoch, random.permutation(len(self._starts) - 1))
        chosen = self._epoch[1][index * self._rows : (index + 1) * self._rows]
        rows = np.full((self._rows, self._slots), -1, np.int64)
        at = self._starts[chosen, None] + np.arange(self._slots)
        filled = at < self._starts[chosen + 1, None]
        rows[: len(chosen)][filled] = self._ids[at[filled]]
        return PlannedBatch(rows, self.max_length, self.max_length, epoch)


def pack(order: Array, source_lengths: Array, target_lengths: Array, width: int) -> tuple[Array, Array]:
    """First fit: each pair goes to the first open row with room for both sides; in time linear in the pairs.

    A pair that fits none opens a row, for which the fullest one is closed if there are too many.

    Args:
        order: int32 or int64 [n], ids of pairs.
        source_lengths, target_lengths: int [pairs], from 1 to `width`.

    Returns:
        The ids row by row, [n], in the order in which rows were closed, and int64 [rows + 1], the start of each row.
    """
    ids, starts = array.array("i" if order.itemsize == 4 else "q"), array.array("q", [0])
    rows: list[list[int]] = []  # that are open, in the order in which they were opened
    # The room of all open rows on a side is one number with a field for each row, whose highest bit is set. One
    # subtraction then asks all rows: it clears that bit in those with too little room. Fields without a row have none.
    bits = width.bit_length() + 1
    at = [bits * row for row in range(_OPEN_ROWS + 1)]
    top = 1 << (bits - 1)
    tops = sum(top << place for place in at[:-1])
    in_each, last = tops // top, top << at[-2]
    sources = targets = tops
    free: list[tuple[int, int]] = []  # the same room, row by row
    least: list[int] = []  # the smaller side of it
    for i, source, target in _numbers(order, source_lengths, target_lengths):
        if fits := (sources - source * in_each) & (targets - target * in_each) & tops:
            row = (fits & -fits).bit_length() // bits - 1
            rows[row].append(i)
        else:
            if len(rows) == _OPEN_ROWS:
                row = least.index(min(least))
                del free[row], least[row]
                ids.extend(rows.pop(row))
                starts.append(len(ids))
                below = (1 << at[row]) - 1
                sources = (sources & below) | (sources >> at[row + 1] << at[row]) | last
                targets = (targets & below) | (targets >> at[row + 1] << at[row]) | last
            row = len(rows)
            rows.append([i])
            free.append((width, width))
            least.append(width)
            sources += width << at[row]
            targets += width << at[row]
        sources -= source << at[row]
        targets -= target << at[row]
        left_source, left_target = free[row]
        left_source -= source
        left_target -= target
        free[row] = left_source, left_target
        least[row] = left_source if left_source < left_target else left_target
    for members in rows:
        ids.extend(members)
        starts.append(len(ids))
    return np.frombuffer(ids, order.dtype), np.frombuffer(starts, np.int64)


def _numbers(order: Array, source_lengths: Array, target_lengths: Array) -> Iterator[tuple[int, int, int]]:
    """Yields each pair's id and lengths as Python's numbers, of which few are in memory at once."""
    for start in range(0, len(order), _CHUNK):
        part = order[start : start + _CHUNK]
        yield from zip(part.tolist(), source_lengths[part].tolist(), target_lengths[part].tolist(), strict=True)
