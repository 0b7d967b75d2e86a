"""OUTPUT_DIR/default_weights.json: which weights of a finished run the commands take by default.

    {"format": 1,
     "default": "averaged",
     "averaged": "model-4000",
     "best": "model-3800",
     "dev": {"averaged": {"dev_loss": 1.91, ...}, "best": {"dev_loss": 1.93, ...}}}

The trainer writes it at the end, with the scores on dev if there was a choice. It counts as long as the run has these
two checkpoints: one that resumes may find better weights. Without a record that counts, as before the end of a run, the
averaged weights are the default, unless the best are newer.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from t2t_lite.files import StrPath, read_json, replace_file
from t2t_lite.runs.checkpoint_files import BEST, step_of

FILE, FORMAT = "default_weights.json", 1
_KINDS = {"default": str, "averaged": str | None, "best": str | None}


def write_default(
    output_dir: StrPath, default: str, averaged: str | None, best: str | None, dev: Mapping[str, Mapping[str, float]]
) -> None:
    """Makes `default` ("averaged", "best" or "newest") what the commands take; `dev`: scores by kind of weights."""
    record = {"format": FORMAT, "default": default, "averaged": _name(averaged), "best": _name(best), "dev": dev}
    replace_file(Path(output_dir) / FILE, json.dumps(record, indent=2) + "\n")


def read_default(output_dir: StrPath, averaged: str | None, best: str | None) -> str | None:
    """Returns "averaged", "best" or "newest" by the record or, where none counts, "best" if it is newer, else None.

    Args:
        averaged, best: paths of the run's checkpoints, if there are any.
    """
    newer = best is not None and (averaged is None or step_of(best) > step_of(averaged))
    otherwise = BEST if newer else None
    try:
        record = read_json(
            Path(output_dir) / FILE, FORMAT, _KINDS, "Remove it, or choose the weights with --checkpoint."
        )
    except FileNotFoundError:
        return otherwise
    counts = (record["averaged"], record["best"]) == (_name(averaged), _name(best))
    return str(record["default"]) if counts else otherwise


def _name(path: str | None) -> str | None:
    return path and os.path.basename(path)
