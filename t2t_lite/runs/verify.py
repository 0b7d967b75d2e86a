"""Verification of a run before it is opened or resumed: files by checksums, a checkpoint by its record."""

from __future__ import annotations

import json
import os
from typing import Any

from t2t_lite.errors import check_format
from t2t_lite.runs.checkpoint import FORMAT, RECORD, variable_key
from t2t_lite.runs.checkpoint_reader import OTHER_ADVICE, READ_ERRORS, DamagedError, open_checkpoint, unreadable
from t2t_lite.runs.run_changes import check_record
from t2t_lite.runs.run_checksums import check_files
from t2t_lite.runs.run_dir import RunSpec

_KINDS = {
    "problem": str,
    "options": dict,
    "model": str,
    "hparams": dict,
    "files": dict,
    "data_sha256": str | None,
}


def verify_opened(output_dir: str | os.PathLike[str], spec: RunSpec, path: str) -> None:
    """Raises DataError unless a run's files are unchanged and the checkpoint `path` was trained with them."""
    check_files(output_dir, spec.files)
    try:
        record = read_record(path)
    except DamagedError as error:
        raise DamagedError(f"{error} {OTHER_ADVICE}") from error
    check_record(record, spec, path, training=False)


def verify_resumed(spec: RunSpec, path: str, *, reset_optimizer: bool) -> None:
    """Raises DataError unless training can resume from the newest checkpoint, `path`, which was trained with `spec`."""
    check_record(read_record(path), spec, path, training=not reset_optimizer)


def read_record(path: str) -> dict[str, Any]:
    """Returns a checkpoint's record of its run (run_changes.py).

    Raises:
        DamagedError: it cannot be read.
        DataError: the checkpoint has another format.
    """
    try:
        reader = open_checkpoint(path)
        there = variable_key(RECORD) in reader.get_variable_to_shape_map()
        record = json.loads(reader.get_tensor(variable_key(RECORD))) if there else {}
    except (*READ_ERRORS, RecursionError, TypeError) as error:
        raise unreadable(path, error) from error
    if isinstance(record, dict):
        check_format(f"The checkpoint {path}", record.get("format"), FORMAT)
    whole = isinstance(record, dict) and all(isinstance(record.get(name), kind) for name, kind in _KINDS.items())
    if not whole or not all(isinstance(checksum, str) for checksum in record["files"].values()):
        raise DamagedError(f"The checkpoint {path} cannot be read: what it says of its run has another form.")
    return dict(record)
