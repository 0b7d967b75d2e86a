"""Origin of an imported run: its toolkit, that toolkit's settings, and the small files that the import has kept."""

from __future__ import annotations

import dataclasses
import io
import json
import logging
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from t2t_lite.errors import DamagedError
from t2t_lite.files import read_json
from t2t_lite.runs.run_dir import FORMAT, IMPORT_FILE, KEPT_DIR

BIASES_FILE, IDS_FILE = "biases.npz", "ids.json"
_CLOSE = 1e-5  # sums of a matrix product differ so much between machines

_log = logging.getLogger("t2t_lite")


@dataclasses.dataclass(frozen=True)
class Origin:
    """Where a run comes from; empty for one that was trained here, but for the licence of what it was fine-tuned from.

    toolkit: such as "Marian"; "" for a run that was trained here.
    settings: the toolkit's, by its names.
    files: what the import has kept, by name.
    """

    toolkit: str = ""
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    files: Mapping[str, bytes] = dataclasses.field(default_factory=dict)

    def json_object(self, name: str) -> dict[str, Any]:
        """Returns the object in a kept file; an empty one if the file is not there."""
        try:
            found = json.loads(self.files.get(name, b"{}"))
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise DamagedError(f"{KEPT_DIR}/{name} of the imported run is damaged. Import the model again.")
        return found

    def restore_biases(self, weights: dict[str, Any]) -> None:
        """Puts biases of attention back into `weights` as they were before the import added them up.

        Weights that have changed since stay as they are, which is logged.
        """
        kept = self._biases()
        for path in [path for path in kept if path.endswith("/value_bias")]:
            start = path.removesuffix("value_bias")
            names = [f"{start}{name}" for name in ("key_bias", "value_bias", "output_bias")]
            try:
                folded = kept[names[2]] + kept[path] @ weights[f"{start}output"]
                same = np.allclose(folded, weights[names[2]], rtol=0, atol=_CLOSE)
                found = {name: kept[name] for name in names}
            except (KeyError, ValueError):
                same = False
            if not same:
                _log.warning("The biases of %s* have changed since the import; they are written as they are.", start)
                return
            weights |= found

    def restored_bias(self, path: str, bias: Any) -> Any:
        """Returns the bias of the logits as it was before the import set that of PAD."""
        kept = self._biases().get(path)
        return kept if kept is not None and np.array_equal(kept[1:], bias[1:]) else bias

    def _biases(self) -> dict[str, Any]:
        if BIASES_FILE not in self.files:
            return {}
        try:
            with np.load(io.BytesIO(self.files[BIASES_FILE]), allow_pickle=False) as file:
                return {name: file[name] for name in file}
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise DamagedError(
                f"{KEPT_DIR}/{BIASES_FILE} of the imported run is damaged. Import the model again."
            ) from error


def read_origin(folder: Path) -> Origin:
    """Reads the origin of a run; DamagedError if its files are damaged."""
    kept = folder / KEPT_DIR
    paths = sorted(path for path in kept.iterdir() if path.is_file()) if kept.is_dir() else []
    files = {path.name: path.read_bytes() for path in paths}
    try:
        record = read_json(folder / IMPORT_FILE, FORMAT, {"toolkit": str}, "Import the model again.")
    except FileNotFoundError:
        return Origin(files=files)
    settings = record.get(f"{record['toolkit']}_hparams")
    return Origin(record["toolkit"], settings if isinstance(settings, dict) else {}, files)
