"""Writer of an imported model as a run, which every command opens; the run is complete or absent."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from t2t_lite import config, registry
from t2t_lite.data.vocabulary_files import by_file
from t2t_lite.errors import DataError, UsageError
from t2t_lite.files import file_lock, json_text, sha256_of, staging_dir, sync
from t2t_lite.groups import OptimizerGroup
from t2t_lite.importers import t2t_model, t2t_training
from t2t_lite.importers.imported import Imported
from t2t_lite.importers.t2t_slots import Slots
from t2t_lite.importers.tf1_checkpoint import step_of
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.optimizers.choices import make_optimizer
from t2t_lite.remote.mirror import name_urls
from t2t_lite.runs.checkpoint import Checkpoints
from t2t_lite.runs.checkpoint_files import AVERAGED
from t2t_lite.runs.record import make_record
from t2t_lite.runs.run_dir import FORMAT, IMPORT_FILE, KEPT_DIR, RunSpec, write_run
from t2t_lite.text.any_vocabulary import AnyVocabulary
from t2t_lite.version import local_version

PROBLEM, MODEL = "imported", "transformer"
# The hparams set that a run is named after; of those of one toolkit, training continues as the set says.
_SETS = {"Marian": "marian_base", "MarianMT": "marianmt_base"}
_OF_T2T = "t2t_import"

_SAID = ("num_heads", "d_k", "d_v", "positions", "activation")  # fields of a description that hparams give
_NOT_IN_SHAPES = ("norm_epsilon", "source_end")  # hparams may give these; else the toolkit's usual value is taken


@dataclasses.dataclass(frozen=True)
class Import:
    """Everything needed to make a run from a checkpoint.

    vocabularies: of source and target, with as many ids as the model; one object if they are shared.
    vocabulary_files: the files they were read from.
    options: of the problem `imported`.
    given: the flags, by name, that the user gave.
    slots: the optimizer's, if training is to continue with them.
    """

    imported: Imported
    hparams: TransformerHParams
    vocabularies: tuple[AnyVocabulary, AnyVocabulary]
    vocabulary_files: tuple[str, ...]
    options: Mapping[str, Any]
    given: Mapping[str, Any]
    slots: Slots | None = None


def recipe(imported: Imported, decoding: Mapping[str, Any], *, two_vocabularies: bool = False) -> TransformerHParams:
    """Returns the recipe of a run: the model's, and how it decodes.

    Args:
        decoding: fields of the group "decode" that were given.
        two_vocabularies: source and target have a vocabulary each.
    """
    model = t2t_model.recipe(imported.description, imported.hparams)
    between = {"share_between_vocabularies": two_vocabularies and imported.description.shared}
    found = config.replace(model, **{**training(imported.toolkit), **imported.usual, **decoding, **between})
    rows = imported.description.max_positions
    if rows and imported.toolkit == "tensor2tensor":  # which trains on no pair that is longer than its table
        found = config.replace(found, max_length=min(config.to_dict(found)["max_length"], rows - 1))
    return found


def training(toolkit: str) -> dict[str, Any]:
    """Returns the settings of training that a toolkit's files do not say, as its hparams set has them; else {}."""
    if toolkit not in _SETS:
        return {}
    found = registry.hparams(_SETS[toolkit])
    names = (*(field.name for field in dataclasses.fields(OptimizerGroup)), "max_length")
    return {name: getattr(found, name) for name in names}


def hparams_set(toolkit: str) -> str:
    """Returns the hparams set that a run is named after."""
    return _SETS.get(toolkit, _OF_T2T)


def check_folder(output_dir: str | os.PathLike[str]) -> None:
    """Raises UsageError unless a run can be written there: the folder must not exist, or must be empty."""
    if os.path.lexists(output_dir) and (not os.path.isdir(output_dir) or os.listdir(output_dir)):
        raise UsageError(f"--output_dir={output_dir} is there already; an import writes a new folder. Give another.")


def write(output_dir: str | os.PathLike[str], found: Import) -> int:
    """Writes the run, and returns how many parameters its model has.

    Raises:
        UsageError: the folder exists and is not empty.
    """
    folder = Path(os.path.abspath(output_dir))
    folder.parent.mkdir(parents=True, exist_ok=True)
    with file_lock(folder):
        check_folder(folder)
        aside = staging_dir(folder)
        aside.mkdir()
        try:
            parameters = _fill(aside, found)
            for path in [*aside.rglob("*"), aside]:
                sync(path)
            os.rename(aside, folder)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        try:
            sync(folder.parent)
        except OSError:
            shutil.rmtree(folder, ignore_errors=True)  # the same command refuses a folder that is there
            raise
    return parameters


def _fill(folder: Path, found: Import) -> int:
    source, target = found.vocabularies
    files = by_file(source, target)
    spec = RunSpec(
        problem=PROBLEM,
        options=dict(found.options),
        data_dir="data",
        usr_dir=None,
        hparams_set=hparams_set(found.imported.toolkit),
        model=MODEL,
        hparams=found.hparams,
        files={name: vocabulary.checksum for name, vocabulary in files.items()},
    )
    model = t2t_model.build(found.imported, found.hparams)
    step = max(step_of(found.imported.checkpoints[-1]), 0)
    Checkpoints(folder, model, record=make_record(spec)).save_weights(AVERAGED, step)
    if found.slots is not None:
        _save_training(folder, model, found, spec)
    for name, vocabulary in files.items():
        vocabulary.save(folder / name)
    if found.imported.kept:
        (folder / KEPT_DIR).mkdir()
        for name, data in found.imported.kept.items():
            (folder / KEPT_DIR / name).write_bytes(data)
    (folder / IMPORT_FILE).write_text(json_text(_record(found), indent=2), "utf-8")
    write_run(folder, spec)
    return int(model.count_params())


def _save_training(folder: Path, model: Any, found: Import, spec: RunSpec) -> None:
    """Writes a checkpoint with the slots, from which a new run continues; DataError if the recipe needs other slots."""
    slots = found.slots
    if slots is None or slots.optimizer != config.to_dict(found.hparams)["optimizer"]:
        raise DataError("The slots in the checkpoint are of another optimizer than its hparams say.")
    weights = model.trainable_weights
    optimizer = make_optimizer(found.hparams, [weight.value for weight in weights])
    if lacking := [weight.path for weight in weights if weight.path not in slots.arrays]:
        raise DataError(f"The checkpoint has no slots of {lacking[0]}, with which training could continue.")
    for weight, of_weight in zip(weights, optimizer.slots, strict=True):
        for name, variable in of_weight.items():
            variable.assign(slots.arrays[weight.path][name])
    Checkpoints(folder, model, optimizer, record=make_record(spec)).save(slots.step)


def _record(found: Import) -> dict[str, Any]:
    """What import.json says: the run's origin, values from shapes and hparams, usual values, and what was given."""
    imported = found.imported
    described = dataclasses.asdict(imported.description)
    usual = {name: described.pop(name) for name in _NOT_IN_SHAPES if name not in imported.hparams}
    said = {name: described.pop(name) for name in (*_SAID, *_NOT_IN_SHAPES) if name in described}
    file = imported.settings_file and os.path.relpath(imported.settings_file, Path(imported.checkpoints[-1]).parent)
    space = imported.target_space
    of_t2t = imported.toolkit == "tensor2tensor"
    training = t2t_training.find_assumed(imported.hparams, config.to_dict(found.hparams)) if of_t2t else {}
    return {
        "format": FORMAT,
        "made_by": f"t2t-lite {local_version()}",
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "toolkit": imported.toolkit,
        "checkpoints": [{"path": name_urls(prefix), "sha256": _checksums(prefix)} for prefix in imported.checkpoints],
        "vocabularies": [
            {"path": name_urls(path), "sha256": None if not os.path.isfile(path) else sha256_of(path)}
            for path in found.vocabulary_files
        ],
        "variables": {
            "weights": len(imported.variables.weights),
            "of_the_optimizer": len(imported.variables.slots),
            "counters": len(imported.variables.counters),
        },
        "from_shapes": described,
        "from_hparams": {"file": file, **said},
        f"usual_in_{imported.toolkit}": usual,
        "target_space": None if space is None else dataclasses.asdict(space),
        "assumed": {**imported.assumed[0], **training},
        "training_set": imported.training_set,
        "licence": dict(imported.licence),
        "ignored": list(imported.ignored),
        "given": dict(found.given),
        f"{imported.toolkit}_hparams": dict(imported.hparams),
    }


def _checksums(prefix: str) -> dict[str, str]:
    if os.path.isfile(prefix):
        return {os.path.basename(prefix): sha256_of(prefix)}
    folder, name = os.path.split(prefix)
    files = sorted(
        path
        for path in Path(folder or ".").iterdir()
        if re.fullmatch(rf"{re.escape(name)}\.(index|data-.*)", path.name)
    )
    return {path.name: sha256_of(path) for path in files}
