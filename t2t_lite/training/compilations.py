"""Compilations of a training by XLA: each is said, and its time does not count as training."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping

import numpy as np

from t2t_lite.progress import duration
from t2t_lite.runs.report import Report


class Compilations:
    """Watches for batches of new shapes, for which XLA compiles a program.

    On an H200 the program of `base` took a minute (benchmarks/README.md). Without a word, a training would seem to
    hang for as long, again and again.

    Args:
        report: of the training.
        shapes: how many shapes its batches have.
    """

    def __init__(self, report: Report, shapes: int) -> None:
        self._report, self._shapes = report, shapes
        self._seen: set[tuple[tuple[int, ...], ...]] = set()
        report.say(
            f"xla:      compiles a program for each of the {shapes} shapes of batches when its first one comes; on a "
            "GPU one may take a minute or more. --hparams=jit=off does without, and its updates are slower"
        )

    @contextlib.contextmanager
    def watch(self, batch: Mapping[str, np.ndarray]) -> Iterator[None]:
        """A context for one update: if its batch has a new shape, the time counts as that of a compilation.

        Args:
            batch: int arrays [micro_batches, rows, length].
        """
        shape = tuple(array.shape for array in batch.values())
        start, new = time.perf_counter(), shape not in self._seen
        yield
        if new:
            self._seen.add(shape)
            seconds = time.perf_counter() - start
            self._report.leave_out(seconds)
            (_, rows, source), (_, _, target) = batch["source"].shape, batch["target"].shape
            self._report.say(
                f"xla:      program {len(self._seen)} of {self._shapes}, for micro-batches of {rows:,} x ({source} + "
                f"{target}) pieces, took {duration(seconds)}"
            )
