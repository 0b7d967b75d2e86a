"""The training loop: update, evaluate, save, stop. A GPU works on an update while the one before is checked."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from t2t_lite.distributed.workers import Workers
from t2t_lite.errors import TrainingError
from t2t_lite.groups import RunGroup
from t2t_lite.runs.checkpoint import DIVERGED_ADVICE, Checkpoints
from t2t_lite.runs.checkpoint_files import BEST
from t2t_lite.runs.metrics_log import Report
from t2t_lite.runs.ranking import DevScore, evaluations_without_progress
from t2t_lite.schedules.base import Schedule
from t2t_lite.signals import LAST_STEP, Stopped, StopSignals
from t2t_lite.training.compilations import Compilations
from t2t_lite.training.evaluate import Evaluator, Scores
from t2t_lite.training.non_finite import NonFiniteGuard
from t2t_lite.training.step import StepResult, TrainStep

_SAMPLES = 10  # translations of dev that an evaluation writes for TensorBoard
_STOPPED_BEFORE = "This run has stopped early already; --hparams=early_stopping=0 makes it continue."


Batch = Mapping[str, np.ndarray]


class Updates:
    """Makes updates and reports them.

    Args:
        batches: in order, beginning with the batch of the first step.
        learning_rate: of a step, from 1.
        compilations: watches each batch that is given to the devices.
        log_every: steps between two lines.
        ahead: check an update when the next one has begun, and copy the batch after it to the device meanwhile, so
            that the device need wait for neither. A CPU has finished an update when TensorFlow returns: there it would
            only delay all output.
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
        self._coming: Batch | None = None  # of the next update
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
        batch, rate = self._coming or next(self._batches), self._learning_rate(step)
        self._coming = next(self._batches) if self._ahead else None
        self._report.add_waited(time.perf_counter() - start)
        following = None if self._coming is None else (self._coming, self._learning_rate(step + 1))
        # If no more bad batches are tolerated, the report of one needs the weights from before it.
        after_bad = self._open is None or self._bad_batches.tolerates
        (rows, source), (_, target) = batch["source"].shape, batch["target"].shape
        with self._compilations.watch(rows, source, target) as compiles:
            how: dict[str, Any] = {"stop": stop, "after_bad": after_bad, "following": following}
            before = self._step_function(batch, step, rate, **how)
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
        finite = math.isfinite(outcome.loss) and math.isfinite(outcome.grad_norm)
        if not finite and outcome.applied > 0:
            self._report.overflow(step, outcome.loss_scale)
        elif not finite:
            self._bad_batches(step, batch, outcome.loss, outcome.grad_norm)
        else:
            how: dict[str, Any] = {"loss_scale": outcome.loss_scale, "timed": timed}
            self._report.add(step, batch, outcome.loss, outcome.grad_norm, rate, **how)
        if step % self._log_every == 0:
            self._report.write()


@dataclasses.dataclass(frozen=True)
class Loop:
    """The training loop of a run: updates, evaluations of dev, the best weights, early stopping, checkpoints.

    The chief evaluates; the other workers call the same methods and receive the result.

    Attributes:
        schedule: its `on_evaluation` is called if it needs evaluations.
        scores: of the evaluations so far, by step.
        reset_at: the step at which the optimizer was last reset; early stopping counts from there.
    """

    updates: Updates
    evaluate: Evaluator
    checkpoints: Checkpoints
    report: Report
    settings: RunGroup
    workers: Workers
    schedule: Schedule
    scores: dict[int, DevScore]
    reset_at: int
    stop: StopSignals

    def run(self, first_step: int) -> None:
        """Trains from `first_step` to the last step, or until neither the dev score nor the dev loss improves.

        Raises:
            Stopped: a signal came; the step that was being made is done and saved.
            TrainingError: out of memory, or bad batches.
        """
        saved_at = time.monotonic()
        self._update_schedule()  # of evaluations after the checkpoint was saved
        if self._is_due(first_step - 1):  # a signal came when the evaluation was due
            self._evaluate(first_step - 1)
        self._stop_if(self.workers.any(self.stop.received > 0), "interrupted; what was saved before is there.")
        if self._stale():
            self.report.console.say(_STOPPED_BEFORE)
            return
        self.stop.notice = LAST_STEP
        for step in range(first_step, self.settings.train_steps + 1):
            self.updates.make(step, stop=self.stop.received > 0)
            # With several workers, the signal may have come to any of them. All end after the step after the one in
            # which it came: by then all know.
            alone = self.workers.count == 1
            stopping = self.stop.received > 0 if alone else step > self.updates.asked_to_stop
            last = step == self.settings.train_steps
            if last:
                self.updates.finish()
                self.report.write()
            if self._is_due(step):
                self.updates.finish()
                self._evaluate(step)
                stopping = self.workers.any(stopping or self.stop.received > 0)
                if not last and (stale := self._stale()):
                    last = True
                    self.report.console.say(
                        f"Stopping at step {step}: {stale} evaluations in a row brought neither a better score nor a "
                        "lower loss."
                    )
            if last or stopping or self.settings.saves(step, (time.monotonic() - saved_at) / 60):
                self.updates.finish()
                with self.report.pause():
                    self.checkpoints.save(step)
                saved_at = time.monotonic()
            if last or stopping:
                self.report.write()
            self._stop_if(stopping, f"step {step:,} of {self.settings.train_steps:,} is done and saved.")
            if last:
                return

    def _is_due(self, step: int) -> bool:
        """Whether the evaluation after `step` is due and was not made."""
        return self.settings.evaluates(step) and bool(self.workers.broadcast(step not in self.scores))

    def _evaluate(self, step: int) -> None:
        """Evaluates, or leaves that to the next start if a signal comes."""
        with self.report.pause(self.settings.evaluations_after(step)), contextlib.suppress(Stopped):
            if self.workers.is_chief:
                self._score(step)
        self.workers.barrier()
        self._update_schedule()

    def _score(self, step: int) -> None:
        with self.stop.immediate():
            found = self.evaluate("dev", lines=self.settings.eval_lines)
        if not math.isfinite(found.loss):
            raise TrainingError(
                f"Step {step}: the loss on dev is {found.loss:g}: the run has diverged. Nothing was saved since the "
                f"newest checkpoint, from which it resumes. {DIVERGED_ADVICE}"
            )
        score = DevScore(found.score.value, found.loss)
        better = self.checkpoints.has_no_best() or all(score.better_than(other) for other in self.scores.values())
        if better:  # before the score is written: a run that is killed in between evaluates again
            self.checkpoints.save_weights(BEST, step)
        self.report.write_scores(step, found.as_metrics("dev"), found.samples(_SAMPLES))
        self.checkpoints.publish()
        self.scores[step] = score
        self.report.console.say(_line(step, found, better))
        if found.loss > 2 * self.evaluate.guessing_loss:
            self.report.console.warn(
                f"warning: a loss of {found.loss:.4g} is above that of guessing, {self.evaluate.guessing_loss:.2f}: "
                f"the run diverges. {DIVERGED_ADVICE}"
            )

    def _update_schedule(self) -> None:
        """Gives a schedule that needs them the evaluations that it has not seen yet, those at multiples of eval_every.

        The extra evaluation after the last step does not count, as the run may continue to a later step.
        """
        last, every = self.schedule.last_evaluation, self.settings.eval_every
        news = sorted(step for step in self.scores if step > last and step % every == 0)
        for i in range(int(self.workers.broadcast(len(news))) if self.schedule.needs_evaluations else 0):
            step = news[i] if self.workers.is_chief else 0
            loss = self.workers.broadcast(self.scores[step].loss if self.workers.is_chief else 0.0)
            self.schedule.last_evaluation = int(self.workers.broadcast(step))
            if said := self.schedule.on_evaluation(loss):
                self.report.console.say(f"step {self.schedule.last_evaluation}: {said}")

    def _stale(self) -> int:
        """Returns the number of evaluations without progress if it is enough to stop, else 0."""
        since = evaluations_without_progress(self.scores, self.reset_at)
        return int(self.workers.broadcast(since if 0 < self.settings.early_stopping <= since else 0))

    def _stop_if(self, stopping: bool, what: str) -> None:
        if stopping:
            self.workers.barrier()  # or the others would exit while the chief still saves
            raise Stopped(self.stop.received or signal.SIGTERM, what)


def _line(step: int, scores: Scores, better: bool) -> str:
    perplexity = f"{scores.perplexity:.2f}" if scores.perplexity < 1e6 else f"{scores.perplexity:.1e}"
    text = f"step {step}: dev loss {scores.loss:.4f}, perplexity {perplexity}, "
    errors = f", {scores.errors:,} of {len(scores.hypotheses):,} sentences in error" if scores.errors else ""
    return f"{text}{scores.score.name} {scores.score.value:.2f}{errors}{' (best so far)' if better else ''}"
