"""Which settings of a run may change when it goes on, and whether a checkpoint is of the run as its files have it."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

from t2t_lite import config
from t2t_lite.errors import DataError, UsageError
from t2t_lite.train.choices import by_evaluations
from t2t_lite.train.run_dir import RunSpec

# Fields that may change when a run goes on: they steer it, but the updates stay the same.
_MAY_CHANGE = frozenset(
    "train_steps log_every eval_every eval_lines save_every save_minutes keep_checkpoints average_checkpoints "
    "early_stopping jit remat beam_size length_penalty extra_length max_source_length decode_batch_tokens".split()
)
# Fields of optimizer and schedule alone, which may change with --reset_optimizer; another optimizer has other slots.
_OPTIMIZER = frozenset((*config.OPTIMIZER_FIELDS, *config.SCHEDULE_FIELDS, "schedule", "clip_norm"))


def check_same(
    old: RunSpec, new: RunSpec, output_dir: str | os.PathLike[str], *, reset_optimizer: bool = False
) -> None:
    """Raises UsageError with the differences, if `new` would not go on as `old` would have.

    Args:
        reset_optimizer: the optimizer's settings may differ.
    """
    changes = _changes(old, new, reset_optimizer)
    if _checksums(old) != _checksums(new):
        changes.append(f"  vocabulary: {old.vocabulary} -> {new.vocabulary}")
    if changes:
        of_optimizer = any(change.split(":")[0].strip() in _OPTIMIZER for change in changes)
        hint = " (with --reset_optimizer the optimizer's settings may change)" if of_optimizer else ""
        raise UsageError(
            f"{output_dir} holds a run that was started with other settings:\n"
            + "\n".join(changes)
            + f"\nGo on with the old settings, or give another --output_dir{hint}."
        )


def make_record(spec: RunSpec) -> dict[str, Any]:
    """Returns what each checkpoint holds of its run, to be compared by `check_record`."""
    return {
        "problem": spec.problem,
        "options": spec.options,
        "model": spec.model,
        "hparams": config.to_dict(spec.hparams),
        "files": spec.files,
    }


def check_record(record: dict[str, Any], spec: RunSpec, path: str, *, training: bool) -> None:
    """Raises DataError if the checkpoint `path` was trained otherwise than the run's files have it.

    Args:
        record: the checkpoint's.
        training: whether it is to be trained on; else the optimizer's settings may differ, as --reset_optimizer leaves
            them.
    """
    known = config.from_dict(type(spec.hparams), record["hparams"])
    trained = dataclasses.replace(
        spec, problem=record["problem"], options=record["options"], model=record["model"], hparams=known
    )
    changes = _changes(trained, spec, reset_optimizer=not training)
    theirs, ours = record["files"] or {}, spec.files or {}
    changes += [
        f"  {name}: checksum {theirs[name][:12]}... -> {ours[name][:12]}..."
        for name in sorted(theirs.keys() & ours.keys())
        if theirs[name] != ours[name] and name.endswith(".model")  # tags are for the output, and may be learned again
    ]
    if changes:
        raise DataError(
            f"The checkpoint {path} was not trained with the settings that the run is opened with now:\n"
            + "\n".join(changes)
            + "\nPut back the checkpoint, or hparams.json, problem.json and vocabularies, that belong together."
        )


def _changes(old: RunSpec, new: RunSpec, reset_optimizer: bool) -> list[str]:
    """One line for each difference of problem, model and hparams that changes the updates."""
    changes = [
        f"  {name}: {before!r} -> {after!r}"
        for name in ("problem", "options", "model")
        if (before := getattr(old, name)) != (after := getattr(new, name))
        if name != "options" or _without_paths(old) != _without_paths(new)
    ]
    before, after = config.to_dict(old.hparams), config.to_dict(new.hparams)
    names = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    may_change = _MAY_CHANGE | _OPTIMIZER if reset_optimizer else _MAY_CHANGE
    if "eval_every" in names and not reset_optimizer and by_evaluations(old.hparams):
        may_change -= {"eval_every"}  # it decides the learning rate
    return changes + [
        f"  {name}: {before.get(name)!r} -> {after.get(name)!r}" for name in names if name not in may_change
    ]


def _without_paths(spec: RunSpec) -> dict[str, Any]:
    """The options that decide the updates; that files are the same is for the data's identity to say."""
    paths = spec.make_problem().path_options
    return {name: value for name, value in spec.options.items() if name not in paths}


def _checksums(spec: RunSpec) -> tuple[str, str] | None:
    return None if spec.vocabulary is None else (spec.vocabulary.source, spec.vocabulary.target)
