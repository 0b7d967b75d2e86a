"""Checksums of a run's small files: a changed bit in one could give other words or another recipe.

hparams.json and problem.json each hold `sha256`, the checksum of all their other entries. problem.json also holds
`files`, the checksums of the vocabularies and of tags.json. Each checkpoint holds a record of recipe, problem and
files.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from t2t_lite.data.store import Store
from t2t_lite.data.vocabulary_files import by_file
from t2t_lite.errors import DataError
from t2t_lite.files import sha256_of

SHA256 = "sha256"
_REMEDY = "Put it back from a copy; the folder of the run's prepared data holds one."


def sealed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `values` with their checksum, which does not depend on order or white space."""
    return {**values, SHA256: _digest(values)}


def check_seal(path: str | os.PathLike[str], values: Mapping[str, Any]) -> None:
    """Raises DataError unless `values`, read from `path`, hold their checksum."""
    rest = {name: value for name, value in values.items() if name != SHA256}
    if values[SHA256] != _digest(rest):
        raise DataError(
            f"{path} is damaged or was edited by hand: its checksum is {_digest(rest)[:12]}... instead of "
            f"{values[SHA256][:12]}.... Put it back from a copy. Settings are changed with t2t-lite-trainer's "
            "flags, such as --hparams."
        )


def file_checksums(store: Store) -> dict[str, str]:
    """Returns the checksums of the files that a run takes from its data: its vocabularies and, if learned, its tags."""
    vocabularies = by_file(store.source_vocabulary, store.target_vocabulary)
    found = {name: vocabulary.checksum for name, vocabulary in vocabularies.items()}
    learned = store.outputs.files().items()
    return found | {name: hashlib.sha256(text.encode()).hexdigest() for name, text in learned}


def check_files(folder: str | os.PathLike[str], files: Mapping[str, str]) -> None:
    """Raises DataError, naming the file, unless the files in a run's folder have these checksums."""
    for name, checksum in files.items():
        path = Path(folder) / name
        try:
            found = sha256_of(path)
        except FileNotFoundError:
            raise DataError(f"{path} is missing. {_REMEDY}") from None
        if found != checksum:
            raise DataError(
                f"{path} is damaged: its checksum is {found[:12]}... instead of {checksum[:12]}.... {_REMEDY}"
            )


def _digest(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
