"""A run's folder: which problem, recipe and data it was made with, so that every command needs only --output_dir.

hparams.json   FORMAT, the hparams set's name, the model's name, every value, and `sha256`, the checksum of all these
problem.json   FORMAT, the problem's name and options, where its data is and its checksum, the user's own folder of
               code, the vocabulary where one was given, the checksums of the vocabularies and of tags.json, `sha256`
vocabulary.model  or vocabulary.source.model and vocabulary.target.model; other endings: data/vocabulary_files.py
tags.json      of a parser: the tags that words may have (text/trees/tag_table.py)
metrics.jsonl  one JSON line per report (runs/metrics_log.py)
import.json    of an imported run: where it comes from (importers/run_folder.py)
started_from.json  of a run that was fine-tuned from an import: which one (runs/started_from.py)
imported/      small files of the import as they were, such as LICENSE (importers/kept_files.py)
default_weights.json  which weights the commands take (runs/default_weights.py)
run.json       each start of the trainer (runs/run_log.py)
test.scores.json, dev.scores.json  the newest scores of a split (runs/scores_file.py)
checkpoints/ best/ averaged/ ema/  (runs/checkpoint.py)
bad_step_N.json  what is known of a step whose loss or gradient was not finite (training/non_finite.py)
.trainer.lock  locked while a trainer runs (runs/lock.py)
.join_key      there while the workers of a cluster meet (distributed/meeting_place.py)
"""

import contextlib
import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from t2t_lite import config, registry
from t2t_lite.config import HParams
from t2t_lite.errors import DataError, UsageError
from t2t_lite.files import StrPath, check_folder, check_tensorflow_folder, json_text, odd_file, read_json, replace_file
from t2t_lite.problem import Problem
from t2t_lite.remote.mirror import open_folder
from t2t_lite.remote.store import is_url
from t2t_lite.runs.checkpoint_files import AVERAGED, BEST, EMA, NEWEST, list_traces

HPARAMS_FILE, PROBLEM_FILE = "hparams.json", "problem.json"
IMPORT_FILE = "import.json"  # where an imported run comes from
STARTED_FROM_FILE = "started_from.json"  # which import the weights of a fine-tuned run come from
KEPT_DIR, LICENCE_FILE = "imported", "LICENSE"
FORMAT = 1  # of these three files
# The types of the entries.
_IN_HPARAMS = {"hparams_set": str, "model": str, "hparams": dict, "sha256": str}
_IN_PROBLEM = {
    "problem": str,
    "options": dict,
    "data_dir": str,
    "usr_dir": str | None,
    "vocabulary": dict | None,
    "data_sha256": str | None,
    "files": dict,
    "sha256": str,
}


@dataclasses.dataclass(frozen=True)
class GivenVocabulary:
    """What --vocabulary named: `path`, and the checksums of both sides' vocabularies, which identify them."""

    path: str
    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.path} (checksum {self.source[:12]}...)"


@dataclasses.dataclass(frozen=True)
class RunSpec:
    """What a run was started with.

    data_dir: relative to the run's folder if it lies inside, so that the folder can be moved; or the URL of a folder.
    vocabulary: what the data are prepared with; None: one trained on the text.
    data_sha256: `Store.checksum` of the data; None: an imported run, or data that are not prepared yet.
    files: checksums of the run's vocabularies and tags, by file name.
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
    files: dict[str, str] = dataclasses.field(default_factory=dict)

    def make_problem(self) -> Problem:
        """Builds the problem again, from its name and options."""
        return registry.problem(self.problem, **self.options)

    def data_folder(self, output_dir: StrPath) -> Path:
        """Where the prepared data is; of a URL, what stands for it on this machine.

        That is a copy that reads ids by shards; where no data are there yet, a working copy in which to prepare them.
        """
        if is_url(self.data_dir):
            from t2t_lite.data.store import copy_from  # loads NumPy

            there = copy_from(f"{self.data_dir}/{self.problem}")
            return there.parent if there else Path(open_folder(self.data_dir, lambda name: False, keep=True))
        return Path(output_dir) / self.data_dir  # an absolute data_dir stays as it is


def make_model(
    name: str,
    hparams: HParams,
    source_vocab_size: int,
    target_vocab_size: int,
    shared: bool,
    *,
    training: bool = False,
    restored: bool = False,
) -> Any:
    """Builds the registered model `name`, and checks that it keeps its contract.

    Shapes are not checked of this package's own models, which have tests.

    Args:
        shared: both sides have one vocabulary.
        training: it is to be trained, so it is checked for that, too.
        restored: a checkpoint replaces its weights at once; in commands, those of this package's models are zeros until
            then.

    Raises:
        UsageError: there is no such model, it does not keep the contract, or the recipe is not for this model.
    """
    from t2t_lite.distributed.tensorflow_loading import in_command
    from t2t_lite.models.base import check_model
    from t2t_lite.models.zero_weights import zero_weights
    from t2t_lite.runs.model_check import make_checked

    model_class: Any = registry.MODELS.get(name)
    check_model(name, model_class)
    needed = config.recipe_class(name)
    if needed is not None and not isinstance(hparams, needed):
        raise UsageError(
            f"The model {name!r} needs a recipe of the class {needed.__name__}, not {type(hparams).__name__}. "
            "Choose an hparams set of this model."
        )
    if model_class.__module__.startswith("t2t_lite.models."):
        with zero_weights() if restored and in_command() else contextlib.nullcontext():
            return model_class.from_hparams(hparams, source_vocab_size, target_vocab_size, shared)
    return make_checked(name, model_class, hparams, (source_vocab_size, target_vocab_size), shared, training=training)


def has_run(output_dir: StrPath) -> bool:
    """Whether a run was started in this folder."""
    return (Path(output_dir) / HPARAMS_FILE).is_file()


def has_weights(output_dir: StrPath) -> bool:
    """Whether the run in this folder has saved a checkpoint; until then it may start with other settings."""
    return any(list_traces(Path(output_dir) / kind) for kind in (NEWEST, BEST, AVERAGED, EMA))


def has_checkpoint(output_dir: StrPath) -> bool:
    """Whether the run in this folder has a checkpoint, whole or damaged, from which training resumes."""
    return bool(list_traces(Path(output_dir) / NEWEST))


def check_run_folder(output_dir: str) -> None:
    """Raises UsageError if checkpoints could not be written to a run's folder, or to one of its folders of them."""
    check_tensorflow_folder("output_dir", output_dir)
    for kind in (NEWEST, BEST, AVERAGED, EMA):
        if os.path.isdir(os.path.join(output_dir, kind)):
            check_folder("output_dir", os.path.join(output_dir, kind))


def write_run(output_dir: StrPath, spec: RunSpec) -> None:
    """Writes hparams.json and problem.json, each whole or not at all."""
    folder = Path(output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    problem = {
        "problem": spec.problem,
        "options": spec.options,
        "data_dir": spec.data_dir,
        "usr_dir": spec.usr_dir,
        "vocabulary": None if spec.vocabulary is None else dataclasses.asdict(spec.vocabulary),
        "data_sha256": spec.data_sha256,
        "files": spec.files,
    }
    hparams = {"hparams_set": spec.hparams_set, "model": spec.model, "hparams": config.to_dict(spec.hparams)}
    # hparams.json last: it marks the folder as a run.
    for name, values in ((PROBLEM_FILE, problem), (HPARAMS_FILE, hparams)):
        replace_file(folder / name, json_text(seal({"format": FORMAT, **values}), indent=2))


def read_run(output_dir: StrPath, usr_dir: str | None = None) -> RunSpec:
    """Reads what `write_run` wrote, and imports the user's own code from `usr_dir`.

    Code that only the run names is not imported: whoever made its folder could run anything.

    Raises:
        DataError: no run there, or its files are damaged.
        UsageError: the run has code of its own, and no `usr_dir` was given; or its recipe belongs to a package that
            is not installed.
    """
    if not has_run(output_dir):
        raise DataError(explain_no_run(output_dir))
    if odd := odd_file(output_dir):
        raise DataError(f"{odd} is not a regular file; no run has such. Remove it.")
    problem, hparams = _read(output_dir, PROBLEM_FILE, _IN_PROBLEM), _read(output_dir, HPARAMS_FILE, _IN_HPARAMS)
    if usr_dir is None and problem["usr_dir"] is not None:
        code = problem["usr_dir"] if problem["usr_dir"].isprintable() else ascii(problem["usr_dir"])
        raise UsageError(
            f"{output_dir} was trained with code of its own, from {code}. Code can do whatever you can, so it is "
            f"imported only when you say so: --usr_dir={code} (read it first if the run is not yours), or --trust_run "
            "for the folder that the run names."
        )
    registry.load_plugins(usr_dir)
    if hparams["hparams_set"] not in registry.HPARAMS:
        raise UsageError(
            f"{output_dir} was trained with the hparams set {hparams['hparams_set']!r}, the model {hparams['model']!r} "
            f"and the problem {problem['problem']!r}; the first is not registered here. Install the package that does "
            f"it, or name the folder of its code with --usr_dir=DIR.{registry.failed_plugins()}"
        )
    cls = registry.recipe_class(hparams["hparams_set"], hparams["model"])
    return RunSpec(
        problem=problem["problem"],
        options=problem["options"],
        data_dir=problem["data_dir"],
        usr_dir=make_absolute(usr_dir),
        hparams_set=hparams["hparams_set"],
        model=hparams["model"],
        hparams=config.from_dict(cls, hparams["hparams"]),
        vocabulary=problem["vocabulary"] and GivenVocabulary(**problem["vocabulary"]),
        data_sha256=problem["data_sha256"],
        files=problem["files"],
    )


def read_code_folder(output_dir: StrPath) -> str | None:
    """Returns the folder of the user's own code that a run names, or None; import it only if the run is trusted."""
    code: str | None = _read(output_dir, PROBLEM_FILE, _IN_PROBLEM)["usr_dir"] if has_run(output_dir) else None
    return code


def make_absolute(usr_dir: str | None) -> str | None:
    """Returns `usr_dir` as problem.json has it: absolute, so that the run opens from any directory."""
    return None if usr_dir is None else os.path.abspath(usr_dir)


def explain_no_run(output_dir: StrPath) -> str:
    """Returns the error for a folder without hparams.json."""
    if has_weights(output_dir):
        return (
            f"{output_dir} holds checkpoints, but no {HPARAMS_FILE}, which says how they were trained. Put it back "
            "from a copy; or run t2t-lite-trainer with the flags that the run was started with: it compares them with "
            f"the newest checkpoint, and writes {HPARAMS_FILE} again."
        )
    return (
        f"{output_dir} holds no run (no {HPARAMS_FILE}). Start one with t2t-lite-trainer --problem=... "
        f"--hparams_set=... --output_dir={output_dir}"
    )


def relative_data_dir(data_dir: StrPath | None, output_dir: StrPath) -> str:
    """How problem.json names the data's folder: OUTPUT_DIR/data by default."""
    if data_dir is None:
        return "data"
    if is_url(data_dir):
        return str(data_dir)
    inside, folder = Path(data_dir).resolve(), Path(output_dir).resolve()
    return str(inside.relative_to(folder)) if inside.is_relative_to(folder) else str(inside)


def _read(output_dir: StrPath, name: str, kinds: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the object in a file; `kinds` are the types of its entries."""
    path = Path(output_dir) / name
    try:
        values = read_json(path, FORMAT, kinds)
    except FileNotFoundError:
        raise DataError(
            f"{path} is missing; this run cannot be opened without it. Put it back from a copy; or remove "
            f"{HPARAMS_FILE}, too, and run t2t-lite-trainer with the flags that the run was started with."
        ) from None
    if values != seal(values):
        raise DataError(
            f"{path} is damaged or was edited by hand. Put it back from a copy. Settings are changed with "
            "t2t-lite-trainer's flags, such as --hparams."
        )
    return values


def seal(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `values` with the checksum of all other entries, which does not depend on order or white space."""
    rest = {name: value for name, value in values.items() if name != "sha256"}
    return {**rest, "sha256": hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()}
