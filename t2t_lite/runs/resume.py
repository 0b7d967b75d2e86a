"""Whether a run may resume, and with which changes: RULES and the fields of a recipe say what each change means.

What a run's folder holds is compared with what is asked for, in this order: its state and settings before any work
(`check_settings`, `check_state`), its data once they are prepared (`check_data`), the record of its newest checkpoint
(`check_checkpoint`), and how dev was scored so far (`changed_scores`). Devices, processors and versions change the
last bits of the weights at most: training/reproducibility.py prints a line about them.
"""

import dataclasses
import enum
import logging
import shlex
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from t2t_lite import config
from t2t_lite.data.vocabulary_files import file_names
from t2t_lite.errors import DataError, UsageError
from t2t_lite.fields import Field
from t2t_lite.files import StrPath
from t2t_lite.groups import OF_OUTPUTS
from t2t_lite.optimizers.choices import by_evaluations, reader_of
from t2t_lite.runs import default_weights
from t2t_lite.runs.checkpoint_files import AVERAGED, BEST, list_traces
from t2t_lite.runs.run_dir import GivenVocabulary, RunSpec, has_checkpoint, has_run, has_weights, read_run
from t2t_lite.runs.start_request import StartRequest

_log = logging.getLogger("t2t_lite")


class Answer(enum.Enum):
    """What a change means for a run that has weights."""

    REFUSE = "another run"
    RESET = "refused, unless the optimizer is reset"
    PREPARE_AGAIN = "refused, unless --prepare_again is given; then scores so far no longer compare"
    NOTE = "scores of dev so far no longer compare"
    IGNORE = "no update depends on it"


# The fields of a recipe declare theirs themselves, but for those that decide how dev is scored.
RULES = {
    "problem": Answer.REFUSE,
    "options": Answer.REFUSE,  # of the problem, but for paths
    "model": Answer.REFUSE,
    "vocabulary": Answer.REFUSE,
    "data": Answer.PREPARE_AGAIN,
    "metric": Answer.NOTE,
    **dict.fromkeys(("eval_lines", *OF_OUTPUTS), Answer.NOTE),
}
_OF_FIELDS = {
    "never": Answer.REFUSE,
    "reset": Answer.RESET,
    "unless_by_evaluations": Answer.RESET,
    "always": Answer.IGNORE,
}


class Change(NamedTuple):
    """A difference between a run and what is asked for."""

    name: str
    before: Any
    after: Any
    answer: Answer
    why: str = ""

    def __str__(self) -> str:
        before, after = (str(v) if isinstance(v, GivenVocabulary) else repr(v) for v in (self.before, self.after))
        return f"  {self.name}: {before} -> {after}{self.why}"


@dataclasses.dataclass(frozen=True)
class Folder:
    """What the folder of a run holds.

    Attributes:
        spec: the run's settings; None: there is no run.
        trained: whether it has weights of any kind.
        resumable: whether it has a checkpoint, whole or damaged, from which training resumes.
        ended: whether training came to its end.
    """

    output_dir: str
    spec: RunSpec | None
    trained: bool
    resumable: bool
    ended: bool


def read_folder(output_dir: str, usr_dir: str | None) -> Folder:
    """Reads what a folder holds, which need not exist; raises as `read_run`."""
    best = (Path(output_dir) / default_weights.FILE).exists() and list_traces(Path(output_dir) / BEST)
    return Folder(
        output_dir,
        read_run(output_dir, usr_dir) if has_run(output_dir) else None,
        has_weights(output_dir),
        has_checkpoint(output_dir),
        bool(best or list_traces(Path(output_dir) / AVERAGED)),
    )


def check_state(folder: Folder, request: StartRequest, spec: RunSpec) -> None:
    """Raises T2TError where training would start over by mistake.

    A run that has ended may have lost its checkpoints; one without any may have been told to take other weights.
    """
    if folder.resumable:
        return
    run = folder.output_dir
    if folder.ended and not spec.make_problem().without_data:  # an imported run has nothing to train on
        raise DataError(
            f"{Path(run) / 'checkpoints'} holds no checkpoint to resume from, and training from the beginning would "
            f"overwrite the weights that are in {run}. Put the checkpoints back from a copy; or start a run in another "
            f"folder from these weights: --output_dir=ANOTHER --warm_start_from={run} --vocabulary={run}."
        )
    if request.data.problem is not None or request.warm_start_from is not None or folder.ended:
        return
    from t2t_lite.runs.run_log import read_request

    before = read_request(run)
    if source := before.get("warm_start_from"):
        again = shlex.quote(f"--warm_start_from={source}") + " --with_optimizer" * bool(before.get("with_optimizer"))
        raise UsageError(
            f"The run in {run} has no checkpoint yet, and was to start from the weights of {source}. Give that again: "
            f"{again}"
        )


def check_settings(
    old: RunSpec, new: RunSpec, output_dir: StrPath, *, reset_optimizer: bool = False, fixed: Collection[str] = ()
) -> None:
    """Raises UsageError with the differences between `old` and `new` that change the updates.

    Args:
        fixed: fields that may not differ either, although they change no update.
    """
    changes = _changes(old, new)
    if _checksums(old) != _checksums(new):
        changes.append(Change("vocabulary", old.vocabulary, new.vocabulary, RULES["vocabulary"]))
    refused = [c for c in changes if c.name in fixed or _refused(c, reset_optimizer=reset_optimizer)]
    if refused:
        hint = (
            " (with --reset_optimizer the optimizer's settings may change; with another --output_dir, "
            f"--warm_start_from={output_dir} --with_optimizer continues this training with them)"
            if any(c.answer is Answer.RESET for c in refused)
            else ""
        )
        raise UsageError(
            f"{output_dir} holds a run that was started with other settings:\n"
            + "\n".join(map(str, refused))
            + f"\nResume with the old settings, or give another --output_dir{hint}."
        )


def check_data(spec: RunSpec, checksum: str, data_dir: Path, output_dir: StrPath, *, again: bool) -> None:
    """Raises DataError if prepared data are not those that a run was trained on; with `again`, warns instead."""
    if spec.data_sha256 in (None, checksum):  # None: hparams.json was lost, and the checksum with it
        return
    if not again:
        raise DataError(
            f"{data_dir} does not hold the data that {output_dir} was trained on: they were prepared again since, and "
            f"differ. Train a new run, in another --output_dir (--warm_start_from={output_dir} --vocabulary="
            f"{output_dir} takes these weights); or let this one resume with other data: --prepare_again."
        )
    _log.warning(
        "%s resumes with other data than its checkpoints were trained on; its dev scores so far may be of others.",
        output_dir,
    )


def check_checkpoint(
    record: Mapping[str, Any], spec: RunSpec, path: str, *, training: bool, reset_optimizer: bool = False
) -> None:
    """Raises DataError if the checkpoint `path`, of this `record`, has other settings than the run's files say.

    Args:
        training: whether it is trained on. Otherwise the optimizer's settings may differ.
    """
    changes = _changes(_spec_of_checkpoint(record, spec), spec)
    refused = [str(c) for c in changes if _refused(c, reset_optimizer=reset_optimizer or not training)]
    theirs, ours = record["files"], spec.files
    refused += [  # only of vocabularies: tags affect just the outputs, and may be learned again
        f"  {name}: checksum {theirs[name][:12]}... -> {ours[name][:12]}..."
        for name in file_names()
        if name in theirs and name in ours and theirs[name] != ours[name]
    ]
    if refused:
        raise DataError(
            f"The checkpoint {path} was not trained with the settings that the run is opened with now:\n"
            + "\n".join(refused)
            + "\nPut back the checkpoint, or hparams.json, problem.json and vocabularies, that belong together."
        )


def changed_scores(record: Mapping[str, Any], spec: RunSpec, signature: str) -> list[Change]:
    """Returns the changes since a checkpoint of this `record` with which scores of dev no longer compare."""
    changes = _changes(_spec_of_checkpoint(record, spec), spec)
    if record["data_sha256"] != spec.data_sha256:
        changes.append(Change("data", record["data_sha256"], spec.data_sha256, RULES["data"]))
    if record.get("metric") != signature:
        changes.append(Change("metric", record.get("metric"), signature, RULES["metric"]))
    order = list(RULES)
    noted = [c for c in changes if RULES.get(c.name) in (Answer.NOTE, Answer.PREPARE_AGAIN)]
    return sorted(noted, key=lambda c: (c.name == "metric", order.index(c.name)))


def _spec_of_checkpoint(record: Mapping[str, Any], spec: RunSpec) -> RunSpec:
    """Returns the settings that a checkpoint was trained with."""
    hparams = config.from_dict(type(spec.hparams), record["hparams"])
    return dataclasses.replace(
        spec, problem=record["problem"], options=record["options"], model=record["model"], hparams=hparams
    )


def _changes(old: RunSpec, new: RunSpec) -> list[Change]:
    """Returns the differences of problem, model and hparams, each with its answer."""
    changes = [
        Change(name, before, after, RULES[name])
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
        Change(name, before.get(name), after.get(name), *_answer(declared[name], old.hparams))
        for name in sorted(names)
        if before.get(name) != after.get(name)
    ]


def _answer(field: Field, hparams: config.HParams) -> tuple[Answer, str]:
    """Returns what a change of a field means in a run of `hparams`, and why where that is not the field's usual."""
    if field.meta.resume == "always" and (reader := reader_of(field.name, hparams)):
        return Answer.RESET, f" ({reader} reads it: the learning rates so far would have been others)"
    if field.meta.resume == "unless_by_evaluations" and not by_evaluations(hparams):
        return Answer.IGNORE, ""
    return RULES.get(field.name, _OF_FIELDS[field.meta.resume]), ""


def _refused(change: Change, *, reset_optimizer: bool) -> bool:
    return change.answer is Answer.REFUSE or (change.answer is Answer.RESET and not reset_optimizer)


def _without_paths(spec: RunSpec) -> dict[str, Any]:
    """The options that decide the updates. The identity of the data covers whether files are the same."""
    paths = spec.make_problem().path_options
    return {name: value for name, value in spec.options.items() if name not in paths}


def _checksums(spec: RunSpec) -> tuple[str, str] | None:
    return None if spec.vocabulary is None else (spec.vocabulary.source, spec.vocabulary.target)
