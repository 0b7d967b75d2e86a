"""Past evaluations of a run, ignored once it goes on with other data or another search."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from t2t_lite import config
from t2t_lite.runs.checkpoint_files import step_of
from t2t_lite.runs.ranking import evaluations_without_progress, past_scores
from t2t_lite.runs.report import note_other_scores
from t2t_lite.runs.run_dir import RunSpec
from t2t_lite.runs.verify import read_record
from t2t_lite.schedules.base import Schedule
from t2t_lite.training.recipe import intervals_of

# Settings that decide what a score is of.
_OF_SCORES = ("eval_lines", "beam_size", "length_penalty", "extra_length", "max_source_length")
METRIC = "metric"  # the entry of a checkpoint's record for the metric's signature


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
    """Ignores the evaluations so far if the run goes on with other data, or scores dev in another way.

    Losses compare as long as the data are the same. A run that has ended keeps its scores: no updates come whose
    weights could be better.

    Args:
        newest: the newest checkpoint, whose record says how the run went on so far.
        signature: the metric's.
        say: prints a line.
        start: the step at which the optimizer is reset or was last reset, or 0; early stopping counts from there.
        writes: whether to note it in metrics.jsonl; of several workers, only the chief does.
    """
    record, step, intervals = read_record(newest), step_of(newest), intervals_of(spec.hparams)
    if step >= intervals.train_steps:
        return
    if record["data_sha256"] != spec.data_sha256:
        schedule.forget_losses()
        what = "The data are others now"
    elif changed := _changed(record, signature, config.to_dict(spec.hparams)):
        if 0 < intervals.early_stopping <= evaluations_without_progress(past_scores(output_dir), start):
            return
        what = f"Dev is scored in another way now ({', '.join(changed)})"
    else:
        return
    if writes:
        note_other_scores(output_dir, step)
    say(f"{what}: best weights and early stopping go by the scores from here on only.")


def _changed(old: dict[str, Any], signature: str, hparams: dict[str, object]) -> list[str]:
    """What differs from the record `old` of a checkpoint."""
    new = {**hparams, METRIC: signature}
    before = {**old["hparams"], METRIC: old.get(METRIC)}
    return [
        f"{name}={new[name]}, before {before[name]}"
        for name in (*_OF_SCORES, METRIC)
        if name in before and before[name] != new[name]
    ]
