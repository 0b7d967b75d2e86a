"""Compilations of a training by XLA: each is said, and its time does not count as training."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from t2t_lite.progress import duration
from t2t_lite.runs.report import Report


class Compilations:
    """Watches for batches of new shapes, for which XLA compiles a program.

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
            report.say(
                f"xla:      compiles a program for each of the {shapes} shapes of batches when its first one comes; on "
                "a GPU one may take a minute or more. --hparams=jit=off does without, and its updates are slower"
            )

    @contextlib.contextmanager
    def watch(self, rows: int, source_length: int, target_length: int) -> Iterator[bool]:
        """A context for the call that gives the devices a batch of this shape; tells whether it compiles."""
        shape, start = (rows, source_length, target_length), time.perf_counter()
        compiles = bool(self._shapes) and shape not in self._seen
        yield compiles
        if compiles:
            self._seen.add(shape)
            seconds = time.perf_counter() - start
            self._report.leave_out(seconds)
            self._report.say(
                f"xla:      program {len(self._seen)} of {self._shapes}, for batches of {rows:,} x "
                f"({source_length} + {target_length}) pieces, took {duration(seconds)}"
            )
