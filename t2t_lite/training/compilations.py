"""Compilations of a training by XLA: each is logged, and its time does not count as training."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator

import tensorflow as tf

from t2t_lite.distributed.xla import cache_folder, cached_programs
from t2t_lite.errors import TrainingError
from t2t_lite.progress import duration
from t2t_lite.runs.report import Report

# What TensorFlow says of a program that it cannot write or read.
_NO_ROOM = ("No space left on device", "Disk quota exceeded")
_DAMAGED = ("Serialized cache", "Read less bytes than requested")


class Compilations:
    """Watches for batches of new shapes, for which XLA compiles a program or takes it from its cache.

    On an H200 the program of `base` took a minute (benchmarks/README.md). Without a word, a training would seem to
    hang for as long, again and again.

    Args:
        report: of the training.
        shapes: how many shapes its batches have; 0: XLA does not compile.
    """

    def __init__(self, report: Report, shapes: int) -> None:
        self._report, self._shapes = report, shapes
        self._seen: set[tuple[int, int, int]] = set()
        if shapes:
            cached = cached_programs(os.environ)
            report.say(
                f"xla:      compiles a program for each of the {shapes} shapes of batches when its first one comes; on "
                "a GPU one may take a minute or more. --hparams=jit=off does without, and its updates are slower"
                + ("" if cached is None else f". Compiled programs are kept on disk: {len(cached)} so far")
            )

    @contextlib.contextmanager
    def watch(self, rows: int, source_length: int, target_length: int) -> Iterator[bool]:
        """A context for the call that gives the devices a batch of this shape; tells whether it compiles.

        Raises:
            TrainingError: the cache of programs cannot be read or written; it has been emptied.
        """
        shape, start = (rows, source_length, target_length), time.perf_counter()
        compiles = bool(self._shapes) and shape not in self._seen
        before = cached_programs(os.environ) if compiles else None
        try:
            yield compiles
        except (tf.errors.OpError, TrainingError) as error:
            if compiles and before is not None:
                _explain(error.__cause__ if isinstance(error, TrainingError) else error)
            raise
        if compiles:
            self._seen.add(shape)
            seconds = time.perf_counter() - start
            hit = before is not None and cached_programs(os.environ) == before
            self._report.leave_out(seconds)
            self._report.say(
                f"xla:      program {len(self._seen)} of {self._shapes}, for batches of {rows:,} x "
                f"({source_length} + {target_length}) pieces, took {duration(seconds)}"
                + (", from the cache" if hit else "")
            )


def _explain(error: BaseException | None) -> None:
    """Raises TrainingError if the cache is to blame: TensorFlow ends a call whose program it cannot read or write.

    The cache is emptied then: a file that was cut short by a crash of the machine would end every later start, too.
    """
    message, folder = str(getattr(error, "message", "")), cache_folder(os.environ)
    full = any(words in message for words in _NO_ROOM)
    if not full and str(folder) not in message and not any(words in message for words in _DAMAGED):
        return
    for path in cached_programs(os.environ) or ():
        with contextlib.suppress(OSError):
            path.unlink()
    raise TrainingError(
        f"The cache of XLA's programs in {folder} cannot be {'written' if full else 'used'}: "
        f"{message.partition(chr(10))[0]}. It has been emptied. {'Make room, then run' if full else 'Run'} the same "
        "command again."
    ) from error
