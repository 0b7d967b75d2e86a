"""A run's folder: which problem, recipe and data it was made with, so that every command needs only --output_dir.

hparams.json   the hparams set's name, the model's name, every value
problem.json   the problem's name and options, where its data is and its checksum, the user's own folder of code, the
               vocabulary where one was given
metrics.jsonl  one JSON line per report (train/report.py)
checkpoints/ best/ averaged/  (train/checkpoint.py)
bad_step_N.json  what is known of a step whose loss or gradient was not finite (train/bad_step.py)
.trainer.lock  locked while a trainer runs (train/lock.py)
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from t2t_lite import config, registry
from t2t_lite.config import HParams
from t2t_lite.data.durable import replace_file
from t2t_lite.errors import DataError, UsageError
from t2t_lite.problem import Problem
from t2t_lite.train.checkpoint_files import list_traces

HPARAMS_FILE, PROBLEM_FILE = "hparams.json", "problem.json"
_IN_HPARAMS = {"hparams_set": str, "model": str, "hparams": dict}
_IN_PROBLEM = {"problem": str, "options": dict, "data_dir": str, "usr_dir": str | None}
_LATER_IN_PROBLEM = {"vocabulary": dict | None, "data_sha256": str | None}  # not in the first runs; None there

# Fields that may change when a run goes on: they steer it, but the updates stay the same.
_MAY_CHANGE = frozenset(
    "train_steps log_every eval_every eval_lines save_every save_minutes keep_checkpoints average_checkpoints "
    "early_stopping jit remat beam_size length_penalty extra_length max_source_length decode_batch_tokens".split()
)
# Fields of the optimizer alone, which may change with --reset_optimizer.
_OPTIMIZER = frozenset("adam_beta1 adam_beta2 adam_epsilon learning_rate_factor warmup_steps clip_norm".split())


@dataclasses.dataclass(frozen=True)
class GivenVocabulary:
    """What --vocabulary named: `path`, and the checksums of the two sides' vocabularies, which count."""

    path: str
    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.path} (checksum {self.source[:12]}...)"


@dataclasses.dataclass(frozen=True)
class RunSpec:
    """What a run was started with.

    data_dir is relative to the run's folder where it lies inside, so that the folder can be moved.
    vocabulary: what the data are prepared with; None: one trained on the text.
    data_sha256: `Store.checksum` of the data; None: not known.
    """

    problem: str
    options: dict[str, Any]
    data_dir: str
    usr_dir: str | None
    hparams_set: str
    model: str
    hparams: HParams
    vocabulary: GivenVocabulary | None = None
    data_sha256: str | None = None

    def make_problem(self) -> Problem:
        """Builds the problem again, from its name and options."""
        return registry.problem(self.problem, **self.options)

    def data_folder(self, output_dir: str | os.PathLike[str]) -> Path:
        """Where the prepared data is."""
        return Path(output_dir) / self.data_dir  # an absolute data_dir stays as it is

    def make_model(self, source_vocab_size: int, target_vocab_size: int, shared: bool) -> Any:
        """Builds the model with fresh weights."""
        return make_model(self.model, self.hparams, source_vocab_size, target_vocab_size, shared)


def make_model(name: str, hparams: HParams, source_vocab_size: int, target_vocab_size: int, shared: bool) -> Any:
    """Builds the registered model `name`; `shared` says that both sides have one vocabulary."""
    model_class: Any = registry.MODELS.get(name)
    return model_class.from_hparams(hparams, source_vocab_size, target_vocab_size, shared)


def has_run(output_dir: str | os.PathLike[str]) -> bool:
    """Whether a run was started in this folder."""
    return (Path(output_dir) / HPARAMS_FILE).is_file()


def has_weights(output_dir: str | os.PathLike[str]) -> bool:
    """Whether the run in this folder has come as far as a checkpoint; until then it may start with other settings."""
    return any(list_traces(Path(output_dir) / kind) for kind in ("checkpoints", "best", "averaged"))


def write_run(output_dir: str | os.PathLike[str], spec: RunSpec) -> None:
    """Writes hparams.json and problem.json, each whole or not at all."""
    folder = Path(output_dir)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise UsageError(f"--output_dir={output_dir} is not a folder.") from None
    problem = {"problem": spec.problem, "options": spec.options, "data_dir": spec.data_dir, "usr_dir": spec.usr_dir}
    if spec.vocabulary is not None:
        problem["vocabulary"] = dataclasses.asdict(spec.vocabulary)
    if spec.data_sha256 is not None:
        problem["data_sha256"] = spec.data_sha256
    hparams = {"hparams_set": spec.hparams_set, "model": spec.model, "hparams": config.to_dict(spec.hparams)}
    # hparams.json last: it is what says that a run is here.
    for name, values in ((PROBLEM_FILE, problem), (HPARAMS_FILE, hparams)):
        replace_file(folder / name, json.dumps(values, indent=2, ensure_ascii=False) + "\n")


def read_run(output_dir: str | os.PathLike[str], usr_dir: str | None = None) -> RunSpec:
    """Reads what `write_run` wrote; imports the user's own code of that run, or `usr_dir` instead.

    Raises:
        DataError: no run there, or its files are damaged.
    """
    if not has_run(output_dir):
        raise DataError(
            f"{output_dir} holds no run (no {HPARAMS_FILE}). Start one with t2t-lite-trainer --problem=... "
            f"--hparams_set=... --output_dir={output_dir}"
        )
    problem = _read(Path(output_dir) / PROBLEM_FILE, _IN_PROBLEM, _LATER_IN_PROBLEM)
    hparams = _read(Path(output_dir) / HPARAMS_FILE, _IN_HPARAMS)
    folder = usr_dir or problem["usr_dir"]
    registry.load_plugins(folder)
    cls = type(registry.hparams(hparams["hparams_set"]))
    return RunSpec(
        problem=problem["problem"],
        options=problem["options"],
        data_dir=problem["data_dir"],
        usr_dir=folder,
        hparams_set=hparams["hparams_set"],
        model=hparams["model"],
        hparams=config.from_dict(cls, hparams["hparams"]),
        vocabulary=_vocabulary(problem["vocabulary"], output_dir),
        data_sha256=problem["data_sha256"],
    )


def _vocabulary(entry: dict[str, Any] | None, output_dir: str | os.PathLike[str]) -> GivenVocabulary | None:
    """Reads the entry of problem.json."""
    if entry is None:
        return None
    try:
        given = GivenVocabulary(**entry)
        if all(isinstance(value, str) for value in dataclasses.astuple(given)):
            return given
    except TypeError:
        pass
    raise DataError(
        f"{Path(output_dir) / PROBLEM_FILE}: vocabulary cannot be {entry!r:.80}; the file is damaged."
    ) from None


def check_same(
    old: RunSpec, new: RunSpec, output_dir: str | os.PathLike[str], *, reset_optimizer: bool = False
) -> None:
    """Raises UsageError with the differences, if `new` would not go on as `old` would have.

    Args:
        reset_optimizer: the optimizer's settings may differ.
    """
    changes = [
        f"  {name}: {before!r} -> {after!r}"
        for name in ("problem", "options", "model")
        if (before := getattr(old, name)) != (after := getattr(new, name))
        if name != "options" or _without_paths(old) != _without_paths(new)
    ]
    if _checksums(old) != _checksums(new):
        changes.append(f"  vocabulary: {old.vocabulary} -> {new.vocabulary}")
    before, after = config.to_dict(old.hparams), config.to_dict(new.hparams)
    names = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    of_optimizer = _OPTIMIZER.intersection(names)
    may_change = _MAY_CHANGE | _OPTIMIZER if reset_optimizer else _MAY_CHANGE
    changes += [f"  {name}: {before.get(name)!r} -> {after.get(name)!r}" for name in names if name not in may_change]
    if changes:
        hint = " (with --reset_optimizer the optimizer's settings may change)" if of_optimizer else ""
        raise UsageError(
            f"{output_dir} holds a run that was started with other settings:\n"
            + "\n".join(changes)
            + f"\nGo on with the old settings, or give another --output_dir{hint}."
        )


def _without_paths(spec: RunSpec) -> dict[str, Any]:
    """The options that decide the updates; that files are the same is for the data's identity to say."""
    paths = spec.make_problem().path_options
    return {name: value for name, value in spec.options.items() if name not in paths}


def _checksums(spec: RunSpec) -> tuple[str, str] | None:
    return None if spec.vocabulary is None else (spec.vocabulary.source, spec.vocabulary.target)


def relative_data_dir(data_dir: str | os.PathLike[str] | None, output_dir: str | os.PathLike[str]) -> str:
    """How problem.json names the data's folder: OUTPUT_DIR/data by default."""
    if data_dir is None:
        return "data"
    inside, folder = Path(data_dir).resolve(), Path(output_dir).resolve()
    return str(inside.relative_to(folder)) if inside.is_relative_to(folder) else str(inside)


def _read(path: Path, kinds: Mapping[str, Any], later: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Returns the object in a file; its entries `kinds` are there, and of these types; those of `later` may be None."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{path} is missing; this run cannot be opened without it.") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not JSON: {error}.") from error
    if not isinstance(values, dict):
        raise DataError(f"{path} does not hold a JSON object.")
    values = {**dict.fromkeys(later or {}), **values}
    for name, kind in {**kinds, **(later or {})}.items():
        if name not in values:
            raise DataError(f"{path} has no entry {name!r}; it is not of this t2t-lite.")
        if not isinstance(values[name], kind):
            raise DataError(f"{path}: {name} cannot be {values[name]!r:.80}; the file is damaged.")
    return values
