"""Processors: all of them for one operation after the other, or one for each of several operations at a time.

TensorFlow does the first by itself. A Transformer's operations are short, and to hand each of them out to threads and
to wait for the last takes up to a quarter of the time. The second does without, where there is enough to do that does
not depend on each other: sentences of a file, rows of a batch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def one_per_operation(at_most: int | None = None) -> None:
    """Gives each operation one thread from now on, so that several should be under way at a time.

    Does nothing where TensorFlow has begun to compute, where there is a GPU or one processor only, or where the user
    has said how many threads an operation has (TF_NUM_INTRAOP_THREADS).

    Args:
        at_most: does nothing where there are more processors.
    """
    import tensorflow as tf

    number = processors()
    if number == 1 or (at_most is not None and number > at_most) or "TF_NUM_INTRAOP_THREADS" in os.environ:
        return
    if tf.config.list_physical_devices("GPU"):
        return
    try:
        tf.config.threading.set_intra_op_parallelism_threads(1)
    except RuntimeError:  # too late: all is done as before, and takes longer
        return


def at_a_time() -> int:
    """How many operations should be under way at a time: 1, unless `one_per_operation` has changed it."""
    import tensorflow as tf

    return processors() if tf.config.threading.get_intra_op_parallelism_threads() == 1 else 1


def each(function: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
    """Yields function(item) for each item, in order; `at_a_time()` of them are under way.

    Where one fails, or nobody wants the rest, those that have not begun never do.
    """
    if at_a_time() == 1:
        yield from map(function, items)
        return
    pool = ThreadPoolExecutor(at_a_time())
    try:
        yield from pool.map(function, items)
    finally:
        pool.shutdown(cancel_futures=True)


def processors() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
