"""Windows: the pairs of many updates at once, read from a store elsewhere while the updates before them are made."""

import dataclasses
import itertools
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from t2t_lite.data.plan import Plan, PlannedBatch
from t2t_lite.data.store import TokenSplit

Planned = tuple[TokenSplit, PlannedBatch]


def planned_batches(split: TokenSplit, plan: Plan, first_step: int, stopped: Callable[[], bool]) -> Generator[Planned]:
    """Yields the batch of update `first_step`, ... without end, each with the pairs that its rows number.

    Args:
        stopped: whether to give up reading a window.
    """
    if split.read_at_once is None:
        yield from ((split, plan.batch(step)) for step in itertools.count(first_step))
    else:
        yield from _in_windows(split, plan, first_step, split.read_at_once, stopped)


def _in_windows(
    split: TokenSplit, plan: Plan, first_step: int, at_once: int, stopped: Callable[[], bool]
) -> Iterator[Planned]:
    steps = itertools.count(first_step)

    def read() -> tuple[TokenSplit, list[PlannedBatch]]:
        planned: list[PlannedBatch] = []
        places = 0
        while places < at_once:
            planned.append(plan.batch(next(steps)))
            places += len(planned[-1].rows) * (planned[-1].source_length + planned[-1].target_length)
        return read_window(split, planned, stopped)

    with ThreadPoolExecutor(1, "t2t-lite-window") as reader:
        coming = reader.submit(read)
        while True:
            window, planned = coming.result()
            coming = reader.submit(read)
            yield from ((window, one) for one in planned)


def read_window(
    split: TokenSplit, planned: Sequence[PlannedBatch], stopped: Callable[[], bool]
) -> tuple[TokenSplit, list[PlannedBatch]]:
    """Returns the pairs of some batches, in memory, and the batches with the numbers that the pairs have there."""
    pairs = np.unique(np.concatenate([one.rows.reshape(-1) for one in planned]))
    pairs = pairs[pairs >= 0]
    window = TokenSplit(
        split.source.subset(pairs, stopped),
        split.target.subset(pairs, stopped),
        None if split.alignment is None else split.alignment.subset(pairs, stopped),
        None if split.weights is None else split.weights[pairs],
    )
    rows = [np.where(one.rows >= 0, np.searchsorted(pairs, one.rows), -1) for one in planned]
    return window, [dataclasses.replace(one, rows=row) for one, row in zip(planned, rows, strict=True)]
