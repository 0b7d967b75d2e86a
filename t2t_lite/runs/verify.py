"""Verification of a run before it is opened or resumed: files by checksums, a checkpoint by its record."""

from __future__ import annotations

import json
import os
from typing import Any

from t2t_lite import config
from t2t_lite.errors import DataError
from t2t_lite.runs.checkpoint import RECORD, variable_key
from t2t_lite.runs.checkpoint_reader import OTHER_ADVICE, READ_ERRORS, DamagedError, open_checkpoint, unreadable
from t2t_lite.runs.run_changes import check_record
from t2t_lite.runs.run_checksums import check_files
from t2t_lite.runs.run_dir import RunSpec

_KINDS = {"problem": str, "options": dict, "model": str, "hparams": dict, "files": dict | None}


def verify_opened(output_dir: str | os.PathLike[str], spec: RunSpec, path: str) -> str | None:
    """Raises DataError unless a run's files are unchanged and the checkpoint `path` was trained with them.

    Returns:
        A sentence that says what could not be verified; None: everything was.
    """
    check_files(output_dir, spec.files or {})
    try:
        record = read_record(path)
    except DamagedError as error:
        raise DamagedError(f"{error} {OTHER_ADVICE}") from error
    if record is not None:
        check_record(record, spec, path, training=False)
    known = {os.fspath(output_dir): spec.files is not None, path: record is not None}
    if all(known.values()):
        return None
    names = " and ".join(name for name, verified in known.items() if not verified)
    return (
        f"{names}: made before t2t-lite kept checksums; that settings and vocabularies are those of the training could "
        "not be verified."
    )


def verify_resumed(spec: RunSpec, path: str, *, reset_optimizer: bool) -> None:
    """Raises DataError unless training can resume from the newest checkpoint, `path`, which was trained with `spec`."""
    record = read_record(path)
    # Checkpoints without a record are older still.
    if record is None or config.MICRO_BATCHES in record["hparams"]:
        raise DataError(
            f"The checkpoint {path} is of an earlier version, whose dropout masks belonged to {config.MICRO_BATCHES} "
            "instead of rows, so that its run cannot be resumed. It can be decoded, exported, and taken as the start "
            "of a new run with --warm_start_from."
        )
    check_record(record, spec, path, training=not reset_optimizer)


def read_record(path: str) -> dict[str, Any] | None:
    """Returns a checkpoint's record of its run (run_changes.py); None: the checkpoint is of an earlier version.

    Raises:
        DamagedError: it cannot be read.
    """
    try:
        reader = open_checkpoint(path)
        if variable_key(RECORD) not in reader.get_variable_to_shape_map():
            return None
        record = json.loads(reader.get_tensor(variable_key(RECORD)))
    except (*READ_ERRORS, RecursionError, TypeError) as error:
        raise unreadable(path, error) from error
    whole = isinstance(record, dict) and all(isinstance(record.get(name), kind) for name, kind in _KINDS.items())
    if not whole or not all(isinstance(checksum, str) for checksum in (record["files"] or {}).values()):
        raise DamagedError(f"The checkpoint {path} cannot be read: what it says of its run has another form.")
    return dict(record)
