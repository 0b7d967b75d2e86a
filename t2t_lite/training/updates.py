"""Sequence of updates: the result of each is checked while a GPU works on the next one."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from t2t_lite.runs.metrics_log import Report
from t2t_lite.training.compilations import Compilations
from t2t_lite.training.non_finite import NonFiniteGuard
from t2t_lite.training.step import StepResult, TrainStep

Batch = Mapping[str, np.ndarray]


class Updates:
    """Makes updates and reports them.

    Args:
        batches: in order, beginning with the batch of the first step.
        learning_rate: of a step, from 1.
        compilations: watches each batch that is given to the devices.
        log_every: steps between two lines.
        ahead: check an update when the next one has begun, so that the device need not wait for the check. A CPU has
            finished an update when TensorFlow returns: there it would only delay all output.
    """

    def __init__(
        self,
        step_function: TrainStep,
        batches: Iterator[Batch],
        learning_rate: Callable[[int], float],
        bad_batches: NonFiniteGuard,
        report: Report,
        compilations: Compilations,
        log_every: int,
        *,
        ahead: bool,
    ) -> None:
        self._step_function, self._batches, self._learning_rate = step_function, batches, learning_rate
        self._bad_batches, self._report, self._log_every = bad_batches, report, log_every
        self._compilations, self._ahead = compilations, ahead
        # Step, batch and learning rate of the unchecked update, and whether its time counts.
        self._open: tuple[int, Batch, float, bool] | None = None
        self.asked_to_stop = math.inf  # the first known step after which a process wished to stop

    def make(self, step: int, *, stop: bool) -> None:
        """Starts update `step` and checks the one before, or this one if not `ahead`.

        Args:
            stop: whether this process wishes to stop.

        Raises:
            TrainingError: out of memory, or one bad batch too many; no later update was applied.
        """
        start = time.perf_counter()
        batch, rate = next(self._batches), self._learning_rate(step)
        self._report.add_waited(time.perf_counter() - start)
        # If no more bad batches are tolerated, the report of one needs the weights from before it.
        after_bad = self._open is None or self._bad_batches.tolerates
        (rows, source), (_, target) = batch["source"].shape, batch["target"].shape
        with self._compilations.watch(rows, source, target) as compiles:
            before = self._step_function(batch, step, rate, stop=stop, after_bad=after_bad)
        self._look(before)
        # A GPU works on the update after the call, whose time is that of the compilation alone.
        self._open = (step, batch, rate, self._ahead or not compiles)
        if not self._ahead:
            self.finish()

    def finish(self) -> None:
        """Waits for the newest update and checks it; raises as `make`."""
        if self._open:
            self._look(self._step_function.outcome())

    def _look(self, outcome: StepResult) -> None:
        if self._open is None:
            return
        (step, batch, rate, timed), self._open = self._open, None
        if outcome.stop > 0:
            self.asked_to_stop = min(self.asked_to_stop, step)
        if not math.isfinite(outcome.loss) or not math.isfinite(outcome.grad_norm):
            self._bad_batches(step, batch, outcome.loss, outcome.grad_norm)
        else:
            self._report.add(step, batch, outcome.loss, outcome.grad_norm, rate, timed=timed)
        if step % self._log_every == 0:
            self._report.write()
