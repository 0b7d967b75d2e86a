"""Writer of a version of an exported model: a folder with a number, complete or absent."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from t2t_lite.data.vocabulary_files import by_file
from t2t_lite.errors import DataError
from t2t_lite.export.export_folder import CARD_FILE, FORMAT, versions
from t2t_lite.export.hub_readme import write_readme
from t2t_lite.export.saved_model import ServedModel
from t2t_lite.export.warmup import BATCH_SIZE, WARMUP_FILE, write_warmup
from t2t_lite.files import file_lock, lacks_room, staging_dir, sync


def export(
    served: ServedModel,
    base: str | os.PathLike[str],
    card: Mapping[str, Any],
    warmup_batch_size: int = BATCH_SIZE,
    licence: bytes | None = None,
) -> Path:
    """Writes a SavedModel as a `new_version`, and returns its path.

    Args:
        served: what is exported.
        card: becomes README.md and model_card.json; "signatures" is added.
        warmup_batch_size: sentences of the largest warm-up request; at most the server's max_batch_size.
        licence: the text that an imported model came with.
    """

    def write(folder: Path) -> None:
        _write(served, folder, card, warmup_batch_size)
        write_readme(folder, card, "saved_model", licence)

    return new_version(base, write)


def new_version(base: str | os.PathLike[str], write: Callable[[Path], None]) -> Path:
    """Writes `base`/N, where N is one more than the largest number there, and returns its path.

    A server that watches `base` must not see half a version: everything is written to a folder whose name is no
    number, forced to the disk, and renamed. Exports into one folder wait for each other.

    Args:
        write: called with the path of an existing, empty folder, which it fills.

    Raises:
        DataError: it could not be written; nothing is left of it, and earlier versions are unchanged.
    """
    base = Path(base)
    try:
        base.mkdir(parents=True, exist_ok=True)
        with file_lock(base / "version"):
            folder = staging_dir(base / "version")
            folder.mkdir()
            try:
                write(folder)
                for path in [*folder.rglob("*"), folder]:
                    sync(path)
                return _number(folder, base)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
    except (OSError, tf.errors.OpError) as error:
        reason = str(error).partition("\n")[0]
        advice = "make room, or give another --export_dir, and run" if lacks_room(error) else "run"
        raise DataError(
            f"The model could not be written to {base}: {reason}. Nothing is left of it; {advice} the same command "
            "again."
        ) from error


def write_card(folder: Path, card: Mapping[str, Any]) -> None:
    """Writes model_card.json into a folder."""
    text = json.dumps({"format": FORMAT, **card}, indent=2, ensure_ascii=False)
    (folder / CARD_FILE).write_text(text + "\n", encoding="utf-8")


def _write(served: ServedModel, folder: Path, card: Mapping[str, Any], warmup_batch_size: int) -> None:
    _save(served, folder)
    source, target = served.vocabularies
    assets, extra = folder / "assets", folder / "assets.extra"  # only the server reads assets.extra
    extra.mkdir()
    for name, vocabulary in by_file(source, target).items():
        vocabulary.save(assets / name)
    for name, text in served.outputs.files().items():  # for people to read; the graph contains them
        (assets / name).write_text(text, encoding="utf-8")
    write_card(assets, {**card, "signatures": _describe(served.signatures)})
    write_warmup(extra / WARMUP_FILE, source, target, served.signatures, warmup_batch_size)


def _save(served: ServedModel, folder: Path) -> None:
    """Writes the SavedModel; an OSError also where TensorFlow cannot read back what it has written."""
    try:
        tf.saved_model.save(served, str(folder), signatures=served.signatures)
    except ValueError as error:
        if "fingerprint" not in str(error):
            raise
        raise OSError(" ".join(str(error).split("\n"))) from error


def _describe(signatures: Mapping[str, Any]) -> dict[str, Any]:
    """{signature: {"inputs": {name: "dtype [sizes]"}, "outputs": ...}}; None is a size that varies."""
    described = {}
    for name, function in signatures.items():
        outputs = function.get_concrete_function().structured_outputs
        sides = {"inputs": {spec.name: spec for spec in function.input_signature}, "outputs": outputs}
        described[name] = {
            side: {key: f"{spec.dtype.name} {spec.shape.as_list()}" for key, spec in sorted(specs.items())}
            for side, specs in sides.items()
        }
    return described


def _number(aside: Path, base: Path) -> Path:
    version = base / str(max(versions(base), default=0) + 1)
    aside.rename(version)
    try:
        sync(base)
    except OSError:
        shutil.rmtree(version, ignore_errors=True)
        raise
    return version
