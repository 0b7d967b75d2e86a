"""Evaluations of a run that goes on in another way: those so far no longer compare, and count no more."""

from __future__ import annotations

import os
from collections.abc import Callable

from t2t_lite import config
from t2t_lite.runs.checkpoint_files import step_of
from t2t_lite.runs.report import OTHER_DATA, OTHER_SEARCH, note_change
from t2t_lite.runs.run_dir import RunSpec
from t2t_lite.runs.verify import read_record
from t2t_lite.schedules.base import Schedule
from t2t_lite.training.recipe import intervals_of

# Settings that decide what a score is of.
_OF_SCORES = ("eval_lines", "beam_size", "length_penalty", "extra_length", "max_source_length")


def forget_scores(
    output_dir: str | os.PathLike[str],
    newest: str,
    spec: RunSpec,
    schedule: Schedule,
    say: Callable[[str], None],
    *,
    writes: bool,
) -> None:
    """Lets the evaluations so far count no more if the run goes on with other data, or scores dev in another way.

    Losses compare as long as the data are the same. A run that has all its updates keeps its scores if only the search
    has changed, since no evaluation comes that could replace its best weights.

    Args:
        newest: the newest checkpoint, whose record says how the run went on so far.
        say: prints a line.
        writes: whether to note it in metrics.jsonl; of several workers, only the chief does.
    """
    record = read_record(newest)
    if record is None:
        return
    step = step_of(newest)
    if record.get("data_sha256") not in (None, spec.data_sha256):
        kind, what = OTHER_DATA, "The data are others now"
        schedule.forget_losses()
    elif step < intervals_of(spec.hparams).train_steps and (
        changed := _changed(record["hparams"], config.to_dict(spec.hparams))
    ):
        kind, what = OTHER_SEARCH, f"Dev is scored in another way now ({', '.join(changed)})"
    else:
        return
    if writes:
        note_change(output_dir, step, kind)
    say(f"{what}: best weights and early stopping go by the scores from here on only.")


def _changed(old: dict[str, object], new: dict[str, object]) -> list[str]:
    return [f"{name}={new[name]}, before {old[name]}" for name in _OF_SCORES if name in old and old[name] != new[name]]
