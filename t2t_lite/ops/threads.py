"""Threads: all processors for one operation at a time, or one processor for each of several operations.

TensorFlow does the first by itself. A Transformer's operations are short: handing each of them out to threads and
waiting for the last one takes up to a quarter of the time. The second way avoids this if there is enough independent
work: sentences of a file, rows of a batch.

Gain (benchmarks/notebook.md): D2 takes 0.93 of the time, with bfloat16 0.81; D1 0.91, with bfloat16 0.77;
T1 0.93 to 0.99, T2 0.81 to 0.94.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from t2t_lite.cpus import available_cpus

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

_BY_THE_USER = "TF_NUM_INTRAOP_THREADS"  # how many threads an operation has
_MOST = 4096  # processors

_settled: int | None = None  # number of processors that `emulate` has set


def fewest_sentences(num_parallel: int) -> int:
    """How many sentences of a search each processor should have at least, 1 or more.

    Each processor reads all weights at each step. The more processors share the memory, the more each must do with
    what it reads. Gain (benchmarks/notebook.md), for two processors: 2 to 16 sentences take 0.6 to 0.9 of the time.
    """
    return max(num_parallel // 2, 1)


def set_inter_op_parallelism_for(sentences: int) -> None:
    """As `set_inter_op_parallelism`, if each processor has `fewest_sentences` or more of a search's `sentences`."""
    number = processors()
    set_inter_op_parallelism(at_most=sentences // fewest_sentences(number))


def set_inter_op_parallelism(at_most: int | None = None) -> None:
    """Gives each operation one thread from now on, so that several operations should run at a time.

    Does nothing if TensorFlow has begun to compute, if there is a GPU or only one processor, if the user has set how
    many threads an operation has (TF_NUM_INTRAOP_THREADS), or after `emulate`.

    Args:
        at_most: does nothing if there are more processors than this.
    """
    number = processors()
    if number > 1 and (at_most is None or number <= at_most) and _settled is None:
        _set_threads(1)


def emulate(num_parallel: int, per_operation: int) -> bool:
    """Fixes `num_parallel()` and `per_operation()` for all further computation, on any machine.

    Sums are then split as on the machine with these numbers, so results are the same to the last bit. How many
    processors do the work changes no result.

    Returns:
        Whether it has fixed them. It does not if `set_inter_op_parallelism` would do nothing (except because of the
        number of processors), nor for impossible numbers.
    """
    global _settled
    number = num_parallel * per_operation
    if 1 in (num_parallel, per_operation) and 1 <= number <= _MOST and _set_threads(per_operation):
        _settled = number
        return True
    return False


def _set_threads(number: int) -> bool:
    """Gives each operation that many threads; returns False if that is not possible."""
    import tensorflow as tf

    if _BY_THE_USER in os.environ or tf.config.list_physical_devices("GPU"):
        return False
    try:
        tf.config.threading.set_intra_op_parallelism_threads(number)
    except RuntimeError:  # too late: everything runs as before, and may take longer
        return False
    return True


def num_parallel() -> int:
    """How many operations should run at a time: 1, unless `set_inter_op_parallelism` or `emulate` has changed it."""
    import tensorflow as tf

    return processors() if tf.config.threading.get_intra_op_parallelism_threads() == 1 else 1


def per_operation() -> int:
    """How many threads an operation has, on CPUs."""
    import tensorflow as tf

    by_the_user = os.environ.get(_BY_THE_USER, "")
    given = int(by_the_user) if by_the_user.isdecimal() else 0
    return int(tf.config.threading.get_intra_op_parallelism_threads()) or given or processors()


def parallel_map(function: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
    """Yields function(item) for each item, in order; `num_parallel()` of them run at a time.

    If one fails, or the caller stops early, items that have not begun are never started.
    """
    if num_parallel() == 1:
        yield from map(function, items)
        return
    pool = ThreadPoolExecutor(num_parallel())
    try:
        yield from pool.map(function, items)
    finally:
        pool.shutdown(cancel_futures=True)


def processors() -> int:
    """Returns the number of processors to compute for: the machine's, or what `emulate` has set."""
    return available_cpus() if _settled is None else _settled
