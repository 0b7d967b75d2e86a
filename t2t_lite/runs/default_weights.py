"""OUTPUT_DIR/default_weights.json: which weights of a finished run the commands take by default.

    {"default": "averaged",
     "averaged": "model-4000",
     "dev": {"averaged": {"dev_loss": 1.91, ...}, "best": {"dev_loss": 1.93, ...}}}

The trainer writes it at the end, with the scores on dev if there was a choice. It counts as long as the averaged
checkpoint is the one that was scored. Runs from before this file existed have none; for them the averaged weights are
the default.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from t2t_lite.errors import DataError
from t2t_lite.files import replace_file

FILE = "default_weights.json"


def write_default(
    output_dir: str | os.PathLike[str], default: str, averaged: str | None, dev: Mapping[str, Mapping[str, float]]
) -> None:
    """Makes `default` ("averaged", "best" or "newest") what the commands take.

    Args:
        averaged: path of the averaged checkpoint, if there is one.
        dev: scores by kind of weights.
    """
    record = {"default": default, "averaged": averaged and os.path.basename(averaged), "dev": dev}
    replace_file(Path(output_dir) / FILE, json.dumps(record, indent=2) + "\n")


def read_default(output_dir: str | os.PathLike[str], averaged: str | None) -> str | None:
    """Returns "averaged", "best" or "newest", or None where nothing is recorded about the checkpoint `averaged`.

    Raises:
        DataError: the file is damaged.
    """
    path = Path(output_dir) / FILE
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"is not JSON: {error}") from error
    if not isinstance(record, dict) or record.get("default") not in ("averaged", "best", "newest"):
        raise _damaged(path, "does not name the default weights")
    return record["default"] if record.get("averaged") == (averaged and os.path.basename(averaged)) else None


def forget_default(output_dir: str | os.PathLike[str]) -> None:
    """Makes the averaged weights the default again."""
    (Path(output_dir) / FILE).unlink(missing_ok=True)


def _damaged(path: Path, what: str) -> DataError:
    return DataError(f"{path} {what}. Remove it, or choose the weights with --checkpoint.")
