"""Provenance of synthetic corpora: synthesis.json beside the pairs, and its copy in the manifest of prepared data."""

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from t2t_lite.data.identity import SourceFile
from t2t_lite.files import json_text, read_json, replace_file, sha256_of
from t2t_lite.version import local_version

PAIRS, PROVENANCE = "train.jsonl", "synthesis.json"
FORMAT = 1  # of synthesis.json
_TYPES = {"made_by": str, "input": dict, "output": dict, "weights": list, "languages": list, "settings": dict}

_log = logging.getLogger("t2t_lite")


def write_provenance(folder: Path, facts: Mapping[str, Any]) -> int:
    """Writes synthesis.json beside `PAIRS`: their origin, the weights, checksums; returns the number of pairs."""
    with open(folder / PAIRS, "rb") as file:
        pairs = sum(1 for _ in file)
    output = {"name": PAIRS, "sha256": sha256_of(folder / PAIRS), "pairs": pairs}
    entries = {"format": FORMAT, "made_by": f"t2t-lite {local_version()}", **facts, "output": output}
    replace_file(folder / PROVENANCE, json_text(entries, indent=1))
    return pairs


def find_provenance(files: Iterable[SourceFile]) -> list[dict[str, Any]]:
    """Returns what synthesis.json says of each file that it describes, each once; warns of pairs that have changed.

    Raises:
        DataError: a synthesis.json is damaged.
    """
    found = {}
    for file in files:
        path = Path(file.path)
        beside = path.with_name(PROVENANCE)
        if path.name != PAIRS or path in found or not beside.is_file():
            continue
        found[path] = read_json(beside, FORMAT, _TYPES, "Make the corpus again with t2t-lite-synthesize.")
        if found[path]["output"]["sha256"] != file.sha256:
            _log.warning("%s has changed since t2t-lite-synthesize wrote it; its %s is kept.", path, PROVENANCE)
    return [*found.values()]
