"""Where the weights of a run come from: an import, which its own folder or that of an earlier run names."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from t2t_lite.errors import DamagedError
from t2t_lite.files import json_text, read_json, replace_file
from t2t_lite.runs.run_dir import FORMAT, IMPORT_FILE, KEPT_DIR, LICENCE_FILE, STARTED_FROM_FILE


def read_import(folder: Path, file: str = IMPORT_FILE) -> dict[str, Any] | None:
    """The toolkit, the checkpoints by name and SHA-256, and the licence, if it is known; None if no file has them.

    Args:
        file: IMPORT_FILE: of the import that the run is; STARTED_FROM_FILE: of the one that it was fine-tuned from.
    """
    try:
        record = read_json(folder / file, FORMAT, _checkpoints)
    except (OSError, DamagedError):  # absent, or damaged, which hinders no command
        return None
    licence = record.get("licence")
    known = {"licence": licence} if isinstance(licence, dict) and licence else {}
    return {"toolkit": record.get("toolkit"), "checkpoints": _checkpoints(record), **known}


def _checkpoints(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [  # without the folders, because paths of a machine are private
        {"name": os.path.basename(checkpoint.get("path") or checkpoint["name"]), "sha256": dict(checkpoint["sha256"])}
        for checkpoint in record["checkpoints"]
    ]


def keep_import(folder: Path, source: Path | None) -> None:
    """Writes into the folder of a new run which import its first weights come from, and the licence of that import.

    Args:
        source: the run whose weights it starts from; None: it starts from none.
    """
    found = source and (read_import(source) or read_import(source, STARTED_FROM_FILE))
    licence = folder / KEPT_DIR / LICENCE_FILE
    if source is not None and found:
        replace_file(folder / STARTED_FROM_FILE, json_text({"format": FORMAT, **found}, indent=2))
        if (text := source / KEPT_DIR / LICENCE_FILE).is_file():
            licence.parent.mkdir(exist_ok=True)
            replace_file(licence, text.read_bytes())
    elif (folder / STARTED_FROM_FILE).exists():  # of a start that came to nothing
        (folder / STARTED_FROM_FILE).unlink()
        licence.unlink(missing_ok=True)
