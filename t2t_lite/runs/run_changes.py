"""Checks of settings that change when a run resumes, and of a checkpoint against the run's files."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection
from typing import Any

from t2t_lite import config
from t2t_lite.data.vocabulary_files import file_names
from t2t_lite.errors import DataError, UsageError
from t2t_lite.fields import Field
from t2t_lite.optimizers.choices import by_evaluations, reader_of
from t2t_lite.runs.run_dir import RunSpec


def check_same(
    old: RunSpec,
    new: RunSpec,
    output_dir: str | os.PathLike[str],
    *,
    reset_optimizer: bool = False,
    fixed: Collection[str] = (),
) -> None:
    """Raises UsageError with the differences between `old` and `new` that change the updates.

    Args:
        reset_optimizer: the optimizer's settings may differ.
        fixed: fields that may not differ either, although they change no update.
    """
    changes = _changes(old, new, reset_optimizer, fixed)
    resettable = len(changes) > len(_changes(old, new, True, fixed))
    if _checksums(old) != _checksums(new):
        changes.append(f"  vocabulary: {old.vocabulary} -> {new.vocabulary}")
    if changes:
        hint = (
            " (with --reset_optimizer the optimizer's settings may change; with another --output_dir, "
            f"--warm_start_from={output_dir} --with_optimizer continues this training with them)"
            if resettable
            else ""
        )
        raise UsageError(
            f"{output_dir} holds a run that was started with other settings:\n"
            + "\n".join(changes)
            + f"\nGo on with the old settings, or give another --output_dir{hint}."
        )


def make_record(spec: RunSpec) -> dict[str, Any]:
    """Returns what each checkpoint records about its run; `check_record` compares it."""
    return {
        "problem": spec.problem,
        "options": spec.options,
        "model": spec.model,
        "hparams": config.to_dict(spec.hparams),
        "files": spec.files,
        "data_sha256": spec.data_sha256,
    }


def check_record(record: dict[str, Any], spec: RunSpec, path: str, *, training: bool) -> None:
    """Raises DataError if the checkpoint `path` was trained with other settings than the run's files say.

    Args:
        record: the checkpoint's.
        training: whether training goes on from the checkpoint. Otherwise the optimizer's settings may differ, as after
            --reset_optimizer.
    """
    known = config.from_dict(type(spec.hparams), record["hparams"])
    trained = dataclasses.replace(
        spec, problem=record["problem"], options=record["options"], model=record["model"], hparams=known
    )
    changes = _changes(trained, spec, reset_optimizer=not training)
    theirs, ours = record["files"], spec.files
    changes += [  # only of vocabularies: tags affect just the outputs, and may be learned again
        f"  {name}: checksum {theirs[name][:12]}... -> {ours[name][:12]}..."
        for name in file_names()
        if name in theirs and name in ours and theirs[name] != ours[name]
    ]
    if changes:
        raise DataError(
            f"The checkpoint {path} was not trained with the settings that the run is opened with now:\n"
            + "\n".join(changes)
            + "\nPut back the checkpoint, or hparams.json, problem.json and vocabularies, that belong together."
        )


def _changes(old: RunSpec, new: RunSpec, reset_optimizer: bool, fixed: Collection[str] = ()) -> list[str]:
    """One line for each difference of problem, model and hparams that changes the updates, or is in a `fixed` field."""
    changes = [
        f"  {name}: {before!r} -> {after!r}"
        for name in ("problem", "options", "model")
        if (before := getattr(old, name)) != (after := getattr(new, name))
        if name != "options" or _without_paths(old) != _without_paths(new)
    ]
    before, after = config.to_dict(old.hparams), config.to_dict(new.hparams)
    declared = config.fields(type(old.hparams)) | config.fields(type(new.hparams))
    names = before.keys() | after.keys()
    if old.model != new.model:  # a field that only one of them reads needs no line of its own
        names = {name for name in names if config.same_field(name, type(old.hparams), type(new.hparams))}
    return changes + [
        f"  {name}: {before.get(name)!r} -> {after.get(name)!r}{_why_not(declared[name], old)}"
        for name in sorted(names)
        if before.get(name) != after.get(name)
        if name in fixed or not _may_change(declared[name], old, reset_optimizer)
    ]


def _may_change(field: Field, old: RunSpec, reset_optimizer: bool) -> bool:
    resume = field.meta.resume
    if resume == "unless_listening":
        return reset_optimizer or not by_evaluations(old.hparams)
    if resume == "always":
        return reset_optimizer or reader_of(field.name, old.hparams) is None
    return resume == "reset" and reset_optimizer


def _why_not(field: Field, old: RunSpec) -> str:
    """Returns what reads a field that may change in most runs."""
    reader = reader_of(field.name, old.hparams) if field.meta.resume == "always" else None
    return f" ({reader} reads it: the learning rates so far would have been others)" if reader else ""


def _without_paths(spec: RunSpec) -> dict[str, Any]:
    """The options that decide the updates. The identity of the data covers whether files are the same."""
    paths = spec.make_problem().path_options
    return {name: value for name, value in spec.options.items() if name not in paths}


def _checksums(spec: RunSpec) -> tuple[str, str] | None:
    return None if spec.vocabulary is None else (spec.vocabulary.source, spec.vocabulary.target)
