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
    # The room of all open rows on a side is one number with a field for each row, the first row's on top, each with its
    # highest bit set. One subtraction then asks all rows: it clears that bit in those with too little room, and the
    # highest bit that is left is that of the first row that fits. Fields without a row have no room.
    bits = width.bit_length() + 1
    at = [bits * field for field in reversed(range(_OPEN_ROWS))]
    top = 1 << (bits - 1)
    tops = sum(top << place for place in at)
    needs = [length * (tops // top) for length in range(width + 1)]
    row_of = [_OPEN_ROWS - 1 - (length - 1) // bits for length in range(bits * _OPEN_ROWS + 1)]
    sources = targets = tops
    left_sources: list[int] = []  # the same room, row by row
    left_targets: list[int] = []
    least: list[int] = []  # the smaller of the two
    for i, source, target in _numbers(order, source_lengths, target_lengths):
        if fits := (sources - needs[source]) & (targets - needs[target]) & tops:
            row = row_of[fits.bit_length()]
            rows[row].append(i)
            left_sources[row] = left_source = left_sources[row] - source
            left_targets[row] = left_target = left_targets[row] - target
        else:
            if len(rows) == _OPEN_ROWS:
                row = least.index(min(least))
                del left_sources[row], left_targets[row], least[row]
                ids.extend(rows.pop(row))
                starts.append(len(ids))
                above, below = at[row] + bits, (1 << at[row]) - 1
                sources = sources >> above << above | (sources & below) << bits | top
                targets = targets >> above << above | (targets & below) << bits | top
            row = len(rows)
            rows.append([i])
            left_sources.append(left_source := width - source)
            left_targets.append(left_target := width - target)
            least.append(0)
            sources += width << at[row]
            targets += width << at[row]
        sources -= source << at[row]
        targets -= target << at[row]
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
