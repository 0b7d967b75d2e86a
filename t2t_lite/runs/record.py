"""Record of a run in each of its checkpoints: the settings and the data that its weights were trained with."""

from __future__ import annotations

import json
from typing import Any

from t2t_lite import config
from t2t_lite.errors import check_format
from t2t_lite.runs.checkpoint import FORMAT, RECORD, variable_key
from t2t_lite.runs.checkpoint_reader import READ_ERRORS, DamagedError, open_checkpoint, unreadable
from t2t_lite.runs.run_dir import RunSpec

METRIC = "metric"  # the entry for the signature of the dev score, in the checkpoints of a training run
_KINDS = {
    "problem": str,
    "options": dict,
    "model": str,
    "hparams": dict,
    "files": dict,
    "data_sha256": str | None,
}


def make_record(spec: RunSpec) -> dict[str, Any]:
    """Returns what each checkpoint records about its run."""
    return {
        "problem": spec.problem,
        "options": spec.options,
        "model": spec.model,
        "hparams": config.to_dict(spec.hparams),
        "files": spec.files,
        "data_sha256": spec.data_sha256,
    }


def read_record(path: str) -> dict[str, Any]:
    """Returns the record in the checkpoint `path`.

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
