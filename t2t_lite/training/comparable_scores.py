"""Scores of dev so far, forgotten once a run resumes with other data or scores dev in another way."""

from __future__ import annotations

import os
from collections.abc import Callable

from t2t_lite.runs.checkpoint_files import step_of
from t2t_lite.runs.metrics_log import note_other_scores
from t2t_lite.runs.ranking import evaluations_without_progress, past_scores
from t2t_lite.runs.record import read_record
from t2t_lite.runs.resume import changed_scores
from t2t_lite.runs.run_dir import RunSpec
from t2t_lite.schedules.base import Schedule


def forget_scores(
    output_dir: str | os.PathLike[str],
    newest: str,
    spec: RunSpec,
    signature: str,
    schedule: Schedule,
    say: Callable[[str], None],
    *,
    start: int,
    writes: bool,
) -> None:
    """Forgets the evaluations so far if they do not compare with those to come.

    Losses compare as long as the data are the same. A run that has ended keeps its scores: no updates come whose
    weights could be better.

    Args:
        newest: the newest checkpoint, whose record says how the run was trained so far.
        signature: the metric's.
        say: prints a line.
        start: the step at which the optimizer is reset or was last reset, or 0; early stopping counts from there.
        writes: whether to note it in metrics.jsonl; of several workers, only the chief does.
    """
    step, hparams = step_of(newest), spec.hparams
    changes = [] if step >= hparams.train_steps else changed_scores(read_record(newest), spec, signature)
    if any(change.name == "data" for change in changes):
        schedule.forget_losses()
        what = "The data are other data now"
    elif changes:
        if 0 < hparams.early_stopping <= evaluations_without_progress(past_scores(output_dir), start):
            return
        values = ", ".join(f"{change.name}={change.after}, before {change.before}" for change in changes)
        what = f"Dev is scored in another way now ({values})"
    else:
        return
    if writes:
        note_other_scores(output_dir, step)
    say(f"{what}: best weights and early stopping go by the scores from here on only.")
