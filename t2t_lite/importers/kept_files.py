"""Small files of an imported model that its run keeps: its licence, its settings, and biases as they were."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from t2t_lite.export.origin import BIASES_FILE
from t2t_lite.runs.run_dir import LICENCE_FILE

_LICENCE_NAMES = ("LICENSE", "LICENSE.txt", "LICENSE.md", "LICENCE", "LICENCE.txt", "COPYING")
_NO_NAMES = ("unknown", "other")  # what the Hub has for none
_LONGEST = 1 << 16  # bytes of a text
_HEAD = re.compile(r"(?s)\A---\r?\n(.*?)\r?\n---")
_IN_HEAD = re.compile(r"""(?m)^license:[ \t]*["']?([A-Za-z0-9][\w.+-]{0,60})["']?[ \t\r]*$""")
# What a licence's text has near its beginning -> its name on the Hub; the first that is found counts.
_TEXTS = {
    **{
        rf"Attribution{terms} 4\.0 International": f"cc-by{name}-4.0"
        for terms, name in {
            "-NonCommercial-ShareAlike": "-nc-sa",
            "-NonCommercial-NoDerivatives": "-nc-nd",
            "-NonCommercial": "-nc",
            "-ShareAlike": "-sa",
            "-NoDerivatives": "-nd",
            "": "",
        }.items()
    },
    r"CC0 1\.0 Universal": "cc0-1.0",
    r"Apache License\s+Version 2\.0": "apache-2.0",
    r"MIT License": "mit",
    r"GNU AFFERO GENERAL PUBLIC LICENSE\s+Version 3": "agpl-3.0",
    r"GNU LESSER GENERAL PUBLIC LICENSE\s+Version 3": "lgpl-3.0",
    r"GNU GENERAL PUBLIC LICENSE\s+Version 3": "gpl-3.0",
}


def find_licence(folder: Path) -> tuple[dict[str, str], dict[str, bytes]]:
    """Returns what a folder says of its model's licence, {"name": ..., "file": ...}, and its file, {LICENSE: text}.

    The name is that in the head of its README.md, or follows from the text; both parts may be missing.
    """
    found: dict[str, str] = {}
    files: dict[str, bytes] = {}
    path = next((folder / name for name in _LICENCE_NAMES if (folder / name).is_file()), None)
    text = b"" if path is None else _read(path)
    if text:
        files[LICENCE_FILE] = text
    head = _HEAD.match(_read(folder / "README.md").decode(errors="replace"))
    if head and (named := _IN_HEAD.search(head[1])) and named[1] not in _NO_NAMES:
        found["name"] = named[1]
    elif name := _name(text.decode(errors="replace")[:3000]):
        found["name"] = name
    return found | ({"file": path.name} if path and text else {}), files


def _name(text: str) -> str | None:
    return next((name for pattern, name in _TEXTS.items() if re.search(pattern, text)), None)


def read_files(folder: Path, names: Iterable[str]) -> dict[str, bytes]:
    """Returns the files of a folder that are there, by name; one that is longer than a text is left out."""
    return {name: text for name in names if (text := _read(folder / name))}


def biases_before(weights: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the biases of attention that `fold_biases` changes, by path."""
    starts = [path.removesuffix("value_bias") for path in weights if path.endswith("/value_bias")]
    names = [f"{start}{kind}_bias" for start in starts for kind in ("key", "value", "output")]
    return {name: weights[name] for name in names if name in weights}


def biases_file(biases: Mapping[str, Any]) -> dict[str, bytes]:
    """Returns the file of biases, by name."""
    file = io.BytesIO()
    np.savez(file, **dict(biases))
    return {BIASES_FILE: file.getvalue()}


def json_bytes(values: Any) -> bytes:
    """JSON of a kept file."""
    return (json.dumps(values, ensure_ascii=False, indent=2) + "\n").encode()


def _read(path: Path) -> bytes:
    """A file's content; nothing if it is not there, cannot be read, or is no text of usual length."""
    try:
        with open(path, "rb") as file:
            data = file.read(_LONGEST + 1)
    except OSError:
        return b""
    return data if len(data) <= _LONGEST else b""
