"""Record of a run in each of its checkpoints: the settings and the data that its weights were trained with."""

from typing import Any

from t2t_lite import config
from t2t_lite.files import parse_json
from t2t_lite.runs.checkpoint import FORMAT, RECORD, variable_key
from t2t_lite.runs.checkpoint_reader import explain_unreadable, open_checkpoint
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
    """Returns the record in the checkpoint `path`; DamagedError if it cannot be read, DataError for another format."""
    with explain_unreadable(path):
        reader = open_checkpoint(path)
        there = variable_key(RECORD) in reader.get_variable_to_shape_map()
        text = reader.get_tensor(variable_key(RECORD)) if there else "{}"
    return parse_json(f"The checkpoint {path}", text, FORMAT, _KINDS)
