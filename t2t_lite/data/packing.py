"""Rows of fixed length that hold several pairs each: one shape instead of a dozen; pure NumPy."""

import numpy as np

from t2t_lite.data.buckets import Bucket, rows_of
from t2t_lite.data.plan import Plan, PlannedBatch

Array = np.ndarray
_OPEN_ROWS = 64  # rows that still take pairs; more would pack a little tighter and slower


class PackedPlan(Plan):
    """Batches of packed rows, `max_length` pieces wide on both sides.

    The seed fixes which pairs share a row; the order of rows is shuffled again in each epoch. (Packing again would
    change the number of rows, and so which batch is number N.)
    """

    def _arrange(self, batch_tokens: int) -> list[tuple[int, Bucket]]:
        order = self._kept[np.random.default_rng([self._seed, 0]).permutation(len(self._kept))]
        self._packed = pack(order, *self._lengths, self.max_length)
        self._rows = rows_of(self.max_length, batch_tokens)
        self._epoch: tuple[int, Array] | None = None
        return [(-(-len(self._packed) // self._rows), Bucket(self.max_length, self.max_length, self._rows))]

    def batch(self, step: int) -> PlannedBatch:
        epoch, index = divmod(step - 1, self.steps_per_epoch)
        if self._epoch is None or self._epoch[0] != epoch:
            random = np.random.default_rng([self._seed, 1, epoch])
            self._epoch = (epoch, random.permutation(len(self._packed)))
        chosen = self._packed[self._epoch[1][index * self._rows : (index + 1) * self._rows]]
        rows = np.full((self._rows, self._packed.shape[1]), -1, np.int64)
        rows[: len(chosen)] = chosen
        return PlannedBatch(rows, self.max_length, self.max_length)


def pack(order: Array, source_lengths: Array, target_lengths: Array, width: int) -> Array:
    """First fit: each pair goes to the first open row with room for both sides.

    Args:
        order: int64 [n], ids of pairs, none longer than `width`.

    Returns:
        int64 [rows, largest number of pairs in a row], -1 where empty.
    """
    done: list[list[int]] = []
    open_rows: list[list[int]] = []
    room = np.zeros((0, 2), np.int64)
    for i, source, target in zip(
        order.tolist(), source_lengths[order].tolist(), target_lengths[order].tolist(), strict=True
    ):
        fits = np.flatnonzero((room[:, 0] >= source) & (room[:, 1] >= target))
        if len(fits):
            row = int(fits[0])
            open_rows[row].append(i)
            room[row] -= (source, target)
            continue
        if len(open_rows) == _OPEN_ROWS:
            fullest = int(np.argmin(room.min(axis=1)))
            done.append(open_rows.pop(fullest))
            room = np.delete(room, fullest, axis=0)
        open_rows.append([i])
        room = np.concatenate([room, [[width - source, width - target]]])
    rows = done + open_rows
    packed = np.full((len(rows), max(map(len, rows))), -1, np.int64)
    for n, row_ids in enumerate(rows):
        packed[n, : len(row_ids)] = row_ids
    return packed
