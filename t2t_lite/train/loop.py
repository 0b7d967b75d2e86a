"""The training loop: update, log, evaluate, save, stop."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator

import numpy as np

from t2t_lite.train.checkpoint import BEST, Checkpoints
from t2t_lite.train.evaluate import Evaluator, Scores
from t2t_lite.train.report import Report
from t2t_lite.train.step import TrainStep

_STOPPED_BEFORE = "This run has stopped early already; --hparams=early_stopping=0 makes it go on."


@dataclasses.dataclass(frozen=True)
class Cadence:
    """How often what happens, in steps where nothing else is said; 0 is never, but for log_every and eval_every."""

    train_steps: int
    log_every: int
    eval_every: int
    eval_lines: int  # of dev that are decoded at an evaluation; 0: all
    save_every: int
    save_minutes: float
    early_stopping: int  # evaluations without a better score


def train(
    step_function: TrainStep,
    batches: Iterator[dict[str, np.ndarray]],
    learning_rate: Callable[[int], float],
    evaluate: Evaluator,
    checkpoints: Checkpoints,
    report: Report,
    cadence: Cadence,
    *,
    first_step: int,
    scores: list[float],
) -> None:
    """Trains from `first_step` to the last step, or until the dev score no longer improves.

    Args:
        batches: the batch of `first_step` first.
        learning_rate: of a step, from 1.
        scores: dev scores of the evaluations before `first_step`, in order.

    Raises:
        TrainingError: a loss or gradient that is not finite.
    """
    saved_at = time.monotonic()
    history = list(scores)
    if cadence.early_stopping and _stale(history) >= cadence.early_stopping:
        report.say(_STOPPED_BEFORE)
        return
    for step in range(first_step, cadence.train_steps + 1):
        batch = next(batches)
        rate = learning_rate(step)
        report.add(step, batch, step_function(batch, step, rate), rate)
        last = step == cadence.train_steps

        if step % cadence.log_every == 0 or last:
            report.write()
        if step % cadence.eval_every == 0 or last:
            with report.pause():
                report.check()
                found = evaluate("dev", lines=cadence.eval_lines)
                report.write_scores(step, found.as_metrics("dev"))
                better = found.score.value > max(history, default=-1.0)
                history.append(found.score.value)
                if better:
                    checkpoints.save_weights(BEST, step)
                report.say(_line(step, found, better))
                stale = _stale(history)
                if cadence.early_stopping and stale >= cadence.early_stopping and not last:
                    report.say(f"Stopping at step {step}: {stale} evaluations in a row brought no better score.")
                    last = True
        minutes = (time.monotonic() - saved_at) / 60
        due = cadence.save_every and step % cadence.save_every == 0
        if due or last or (cadence.save_minutes and minutes >= cadence.save_minutes):
            with report.pause():
                report.check()
                checkpoints.save(step)
                saved_at = time.monotonic()
        if last:
            return


def _stale(history: list[float]) -> int:
    """How many evaluations there were since the best one."""
    return len(history) - 1 - history.index(max(history)) if history else 0


def _line(step: int, scores: Scores, better: bool) -> str:
    text = f"step {step}: dev loss {scores.loss:.4f}, perplexity {scores.perplexity:.2f}, "
    return f"{text}{scores.score.name} {scores.score.value:.2f}{' (best so far)' if better else ''}"
