"""OUTPUT_DIR/default_weights.json: which weights of a finished run the commands take by default.

    {"format": 1,
     "default": "averaged",
     "averaged": "model-4000",
     "best": "model-3800",
     "dev": {"averaged": {"dev_loss": 1.91, ...}, "best": {"dev_loss": 1.93, ...}}}

The trainer writes it at the end, with the scores on dev if there was a choice. With a moving average there is "ema",
too, also of "dev". The record counts as long as the run has these checkpoints: one that resumes may find better
weights. Without a record that counts, as before the end of a run, the averaged weights are the default, unless the best
are newer.
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
    output_dir: StrPath,
    default: str,
    averaged: str | None,
    best: str | None,
    dev: Mapping[str, Mapping[str, float]],
    ema: str | None = None,
) -> None:
    """Makes `default` what the commands take: "averaged", "best", "ema" or "newest".

    Args:
        averaged, best, ema: paths of the run's checkpoints, if there are any.
        dev: scores by kind of weights.
    """
    names = {"averaged": _name(averaged), "best": _name(best), **({"ema": _name(ema)} if ema else {})}
    record = {"format": FORMAT, "default": default, **names, "dev": dev}
    replace_file(Path(output_dir) / FILE, json.dumps(record, indent=2) + "\n")


def read_default(output_dir: StrPath, averaged: str | None, best: str | None, ema: str | None = None) -> str | None:
    """Returns the kind of weights by the record or, where it does not count, "best" if these are newer, else None.

    Args:
        averaged, best, ema: as `write_default`.
    """
    newer = best is not None and (averaged is None or step_of(best) > step_of(averaged))
    otherwise = BEST if newer else None
    try:
        record = read_json(
            Path(output_dir) / FILE, FORMAT, _KINDS, "Remove it, or choose the weights with --checkpoint."
        )
    except FileNotFoundError:
        return otherwise
    counts = [record.get(kind) for kind in ("averaged", "best", "ema")] == [_name(p) for p in (averaged, best, ema)]
    return str(record["default"]) if counts else otherwise


def _name(path: str | None) -> str | None:
    return path and os.path.basename(path)
