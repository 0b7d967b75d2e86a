"""Pipeline from planned batches to padded arrays, which a thread makes ahead of the training step.

Token ids are small compared with what a step computes, so every replica gets the whole batch and takes its part
(training/step.py). Nothing here depends on the number of devices.
"""

import contextlib
import queue
import threading
from collections.abc import Generator, Iterator
from typing import Any

import numpy as np

from t2t_lite.data.packing import PackedPlan
from t2t_lite.data.plan import BucketPlan, Plan, PlannedBatch
from t2t_lite.data.shards import never
from t2t_lite.data.store import Tokens, TokenSplit
from t2t_lite.data.windows import planned_batches, read_window
from t2t_lite.errors import DataError
from t2t_lite.groups import BatchGroup

Array = np.ndarray
Batch = dict[str, Array]

_AHEAD = 4  # batches made before they are asked for


def make_plan(split: TokenSplit, batch: BatchGroup, seed: int) -> Plan:
    """Returns the plan of a recipe's batches over the pairs of `split`."""
    kind: type[Plan] = PackedPlan if batch.packing else BucketPlan
    how: dict[str, Any] = {"folder": split.source.path.parent, "fill": split.fill, "times": split.times}
    return kind(*split.lengths, batch_tokens=batch.batch_tokens, max_length=batch.max_length, seed=seed, **how)


def batches(
    split: TokenSplit, plan: Plan, *, packing: bool, first_step: int, aligned: bool = False
) -> Generator[Batch, None, None]:
    """Yields the batch of update `first_step`, `first_step` + 1, ... without end.

    Args:
        aligned: whether the batches have the alignments of `split`.

    Yields:
        int32 arrays [rows, length] "source" and "target", padded with 0; packed batches add
        "source_segment" (1, 2, ... by pair), "source_position" (from 0 in each pair), and the same of the target.
        Aligned ones add "alignment" [rows, target length x source length], 1 where pieces are linked. Those of weighted
        data add "weight" [rows, target length], the float32 weights of the target's pieces as the bits of int32.
    """
    made: queue.Queue[Batch | BaseException] = queue.Queue(_AHEAD)
    stopped = threading.Event()

    def make() -> None:
        try:
            with contextlib.closing(planned_batches(split, plan, first_step, stopped.is_set)) as coming:
                while not stopped.is_set():
                    _put(made, assemble(*next(coming), packing, aligned), stopped)
        except BaseException as error:  # passed on: the training loop must raise it
            _put(made, error, stopped)

    thread = threading.Thread(target=make, daemon=True, name="t2t-lite-batches")
    thread.start()
    try:
        while True:
            item = made.get()
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stopped.set()
        thread.join()


def by_length(split: TokenSplit, max_tokens: int, *, skip: int = 0) -> Iterator[PlannedBatch]:
    """Yields batches of each pair once, longest first: as many rows as fit `max_tokens` by the longest side, or one.

    Args:
        skip: how many of the longest pairs are left out.
    """
    source, target = split.source.lengths, split.target.lengths
    longer = np.maximum(source, target)
    order, start = np.argsort(-longer, kind="stable")[skip:], 0
    while start < len(order):
        ids = order[start : start + max(max_tokens // int(longer[order[start]]), 1)]
        yield PlannedBatch(ids[:, None], int(source[ids].max()), int(target[ids].max()))
        start += len(ids)


def _put(made: queue.Queue[Batch | BaseException], item: Batch | BaseException, stopped: threading.Event) -> None:
    while not stopped.is_set():
        try:
            made.put(item, timeout=0.1)
            return
        except queue.Full:
            continue


def assemble(split: TokenSplit, planned: PlannedBatch, packing: bool, aligned: bool = False) -> Batch:
    """Returns the arrays of one planned batch, see `batches`; DataError if an id belongs to no piece."""
    if split.read_at_once is not None:
        split, [planned] = read_window(split, [planned], never)
    batch: Batch = {}
    split, planned = split.cut(planned)
    for name, tokens, length in (
        ("source", split.source, planned.source_length),
        ("target", split.target, planned.target_length),
    ):
        ids, segments, positions = _fill(tokens, planned.rows, length)
        tokens.check(ids)
        batch[name] = ids
        if packing:
            batch |= {f"{name}_segment": segments, f"{name}_position": positions}
        if name == "target" and split.weights is not None:
            batch["weight"] = _fill_weights(split.weights, planned.rows, segments)
    if aligned:
        batch["alignment"] = _fill_links(split, planned)
    return batch


def _fill_weights(weights: Array, rows: Array, segments: Array) -> Array:
    """The weights of the pairs of `rows` [R, slots] at their pieces, whose segments [R, length] count from 1."""
    of_slots = np.where(rows >= 0, weights[np.maximum(rows, 0)], 0).astype(np.float32)
    before = np.zeros((len(rows), 1), np.float32)
    return np.take_along_axis(np.concatenate([before, of_slots], 1), segments, 1).view(np.int32)


def _fill_links(split: TokenSplit, planned: PlannedBatch) -> Array:
    """The links of the pairs in the rows of a batch, int32 [R, T x S]."""
    if split.alignment is None:
        raise DataError("The prepared data hold no alignments.")
    row, slot = np.nonzero(planned.rows >= 0)
    pairs = planned.rows[row, slot]
    counts = split.alignment.lengths[pairs].astype(np.int64) // 2
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    at = np.repeat(split.alignment.offsets[pairs], counts) + 2 * within
    places = []
    for side, tokens in enumerate((split.source, split.target)):
        lengths = tokens.lengths[pairs].astype(np.int64)
        place = split.alignment.data[at + side].astype(np.int64)
        if np.any(place >= np.repeat(lengths, counts)):
            raise DataError("The prepared data are damaged: an alignment links a piece that is not there.")
        places.append(place + np.repeat(_starts(row, lengths, len(planned.rows)), counts))
    links = np.zeros((len(planned.rows), planned.target_length * planned.source_length), np.int32)
    links[np.repeat(row, counts), places[1] * planned.source_length + places[0]] = 1
    return links


def _starts(row: Array, lengths: Array, rows: int) -> Array:
    """The columns in which sequences start; a sequence starts where those before it in its row end.

    Args:
        row: of each sequence, in order.
    """
    ends = np.cumsum(lengths)
    before_row = np.concatenate([[0], ends])[np.searchsorted(row, np.arange(rows))]
    return ends - lengths - before_row[row]


def _fill(tokens: Tokens, rows: Array, length: int) -> tuple[Array, Array, Array]:
    """Gathers the sequences of `rows` [R, slots] into int32 [R, length]: ids, segments and positions."""
    row, slot = np.nonzero(rows >= 0)
    pairs = rows[row, slot]
    lengths = tokens.lengths[pairs].astype(np.int64)
    ends = np.cumsum(lengths)
    within = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - lengths, lengths)
    column = within + np.repeat(_starts(row, lengths, len(rows)), lengths)
    at = (np.repeat(row, lengths), column)
    ids, segments, positions = (np.zeros((len(rows), length), np.int32) for _ in range(3))
    ids[at] = tokens.take(pairs)
    segments[at] = np.repeat(slot + 1, lengths)
    positions[at] = within
    return ids, segments, positions
