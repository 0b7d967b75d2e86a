"""Compilations of a training by XLA: each is logged, and its time does not count as training."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed

import tensorflow as tf

from t2t_lite.cpus import available_cpus
from t2t_lite.distributed.xla import cache_folder, list_programs
from t2t_lite.errors import TrainingError
from t2t_lite.progress import duration
from t2t_lite.runs.metrics_log import Report

_MOST_THREADS, _CPUS_OF_A_PROGRAM = 4, 4
# What TensorFlow says of a program that it cannot write or read.
_NO_ROOM = ("No space left on device", "Disk quota exceeded")
_DAMAGED = ("Serialized cache", "Read less bytes than requested")

Shape = tuple[int, int, int]  # rows, source length, target length


class Compilations:
    """Watches for batches of new shapes, for which XLA compiles a program or takes it from its cache.

    On an H200 the program of `base` took a minute (benchmarks/README.md).

    Args:
        shapes: how many shapes the batches have; 0: XLA does not compile.
    """

    def __init__(self, report: Report, shapes: int) -> None:
        self._report, self._shapes = report, shapes
        self._seen: set[Shape] = set()
        if shapes:
            report.console.say(
                f"xla:      compiles a program for each of the {shapes} shapes of batches; on a GPU one may take a "
                "minute or more. --hparams=jit=off does without, and its updates are slower"
            )

    @contextlib.contextmanager
    def watch(self, rows: int, source_length: int, target_length: int) -> Iterator[bool]:
        """A context for the call that gives the devices a batch of this shape; tells whether it compiles.

        Raises:
            TrainingError: the cache of programs cannot be read or written; it has been emptied.
        """
        shape, start = (rows, source_length, target_length), time.perf_counter()
        compiles = bool(self._shapes) and shape not in self._seen
        try:
            yield compiles
        except (tf.errors.OpError, TrainingError) as error:
            if compiles:
                _explain(error)
            raise
        if compiles:
            self._seen.add(shape)
            seconds = time.perf_counter() - start
            self._report.leave_out(seconds)
            self._say(shape, seconds)

    def compile_ahead(
        self,
        shapes: Iterable[Shape],
        compile_shape: Callable[[int, int, int], None],
        threads: int,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """Compiles the programs that are missing, several at a time; does nothing for fewer than two threads.

        A shape for which the device has too little memory beside the others waits for its first batch.

        Args:
            shapes: in the order in which they are needed.
            compile_shape: compiles the program of a shape, and changes nothing.
            check: called after each program; what it raises ends the rest.

        Raises:
            TrainingError: as `watch`.
        """
        if not self._shapes or threads < 2:
            return
        missing = [shape for shape in dict.fromkeys(shapes) if shape not in self._seen]
        if len(missing) < 2:
            return
        start = time.perf_counter()

        def measure(shape: Shape) -> float | None:
            start = time.perf_counter()
            try:
                compile_shape(*shape)
            except (tf.errors.OpError, TrainingError) as error:
                if not isinstance(_explain(error), tf.errors.ResourceExhaustedError):
                    raise
                return None
            return time.perf_counter() - start

        with ThreadPoolExecutor(threads) as pool:
            running = {pool.submit(measure, shape): shape for shape in missing}
            try:
                for done in as_completed(running):
                    if (seconds := done.result()) is not None:
                        self._seen.add(running[done])
                        self._say(running[done], seconds)
                    check()
            finally:
                pool.shutdown(cancel_futures=True)
        total = time.perf_counter() - start
        self._report.leave_out(total)
        self._report.console.say(f"xla:      {len(missing)} programs in {duration(total)}")

    def _say(self, shape: Shape, seconds: float) -> None:
        rows, source_length, target_length = shape
        self._report.console.say(
            f"xla:      program {len(self._seen)} of {self._shapes}, for batches of {rows:,} x "
            f"({source_length} + {target_length}) pieces, took {duration(seconds)}"
        )


def compile_threads(devices: int) -> int:
    """Returns how many programs to compile at a time; one for several devices, which each compile for themselves."""
    return min(_MOST_THREADS, available_cpus() // _CPUS_OF_A_PROGRAM) if devices == 1 else 1


def _explain(error: Exception) -> BaseException | None:
    """Returns TensorFlow's error; raises TrainingError if it is about a program of the cache, which is emptied then.

    A file that was cut short by a crash of the machine would end every later start, too.
    """
    cause = error.__cause__ if isinstance(error, TrainingError) else error
    message, folder = str(getattr(cause, "message", "")), cache_folder(os.environ)
    full = any(words in message for words in _NO_ROOM)
    if folder is None or not (full or str(folder) in message or any(words in message for words in _DAMAGED)):
        return cause
    for path in list_programs(os.environ) or ():
        with contextlib.suppress(OSError):
            path.unlink()
    raise TrainingError(
        f"The cache of XLA's programs in {folder} cannot be {'written' if full else 'used'}: "
        f"{message.partition(chr(10))[0]}. It has been emptied. {'Make room, then run' if full else 'Run'} the same "
        "command again."
    ) from cause
