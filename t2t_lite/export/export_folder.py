"""The folder that t2t-lite-exporter writes: versions by number, each with a model card; needs no TensorFlow."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from t2t_lite.errors import DataError, check_tensorflow_path
from t2t_lite.files import read_json
from t2t_lite.remote.mirror import fetch, has, open_folder
from t2t_lite.remote.store import is_url

CARD_FILE, FORMAT = "model_card.json", 1  # in assets; of the export

# A server's batching may cut and join answers along their first axis. So the outputs of the default signatures have
# fixed sizes along all other axes.
DEFAULT_SIGNATURES = ("serving_default", "nbest", "score")
SIGNATURES = (*DEFAULT_SIGNATURES, "tokens", "attention", "alignments", "prefix", "word_scores")


def versions(base: str | os.PathLike[str]) -> dict[int, Path]:
    """The versions in a folder of exports, by number, oldest first; a server looks at no other names either."""
    try:
        found = [path for path in Path(base).iterdir() if path.name.isdecimal()]
    except (FileNotFoundError, NotADirectoryError):
        return {}
    return dict(sorted((int(path.name), path) for path in found))


def find_version(folder: str | os.PathLike[str]) -> Path:
    """Returns `folder` if it is an exported version, or the newest one in it; DataError where there is none."""
    check_tensorflow_path(os.fspath(folder), folder)
    here = open_folder(os.fspath(folder))
    newest = list(reversed(versions(here).values()))
    for path in (Path(here), *(newest if is_url(os.fspath(folder)) else newest[:1])):
        if has(path / "saved_model.pb"):  # in a store, one that is being uploaded lacks it
            fetch(path)
            return path
    raise DataError(
        f"{folder} holds no exported model: neither saved_model.pb nor a folder with a number that has one. Write one "
        "with t2t-lite-exporter --output_dir=RUN."
    )


def read_card(version: Path) -> dict[str, Any]:
    """Reads a version's model card; DataError where there is none, or one of another format."""
    path = version / "assets" / CARD_FILE
    try:
        return read_json(path, FORMAT, {}, "Export the model again.")
    except OSError as error:
        raise DataError(
            f"{path} cannot be read ({error}); t2t-lite needs an export of its own, as t2t-lite-exporter writes it."
        ) from error
