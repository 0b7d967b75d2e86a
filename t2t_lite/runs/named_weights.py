"""Paths that name weights: a run, one of its folders of checkpoints, or a checkpoint, with or without a file's ending.

RUN, RUN/best, RUN/averaged, RUN/ema, RUN/checkpoints, RUN/checkpoints/model-2000, RUN/best/model-1800.index
"""

import os
import re
from pathlib import Path
from typing import NamedTuple

from t2t_lite.errors import DataError, UsageError
from t2t_lite.files import StrPath
from t2t_lite.remote.mirror import open_folder
from t2t_lite.remote.store import is_url
from t2t_lite.runs.checkpoint_files import AVERAGED, BEST, EMA, NAME, NEWEST, list_whole
from t2t_lite.runs.run_dir import has_run, has_weights

# A run's folders of checkpoints, and their names.
_KINDS = {BEST: "best", AVERAGED: "averaged", EMA: "ema", NEWEST: "newest"}


class NamedWeights(NamedTuple):
    """What a path names: weights of `run`; which: as for `checkpoint.find`."""

    run: Path
    which: str | None


def parse_weights_path(path: StrPath) -> NamedWeights | None:
    """Returns what a path names; None if it is nothing of a run; DataError if it names something else in a run."""
    path = Path(os.path.abspath(path)) if os.path.basename(path) in ("", ".", "..") else Path(path)
    if has_run(path) or has_weights(path):
        return NamedWeights(path, None)
    if not path.name:
        return None
    path = path.with_name(re.sub(r"\.(index|data-\d+-of-\d+)$", "", path.name))
    folder = path if path.name in _KINDS else path.parent
    kind, run = folder.name, folder.parent
    if kind not in _KINDS or not (has_run(run) or has_weights(run)):
        if has_run(path.parent):
            raise DataError(f"{path} is no checkpoint of {path.parent}. Its checkpoints are in {', '.join(_KINDS)}.")
        return None
    if folder == path:
        return NamedWeights(run, _KINDS[kind])
    if kind == NEWEST:
        return NamedWeights(run, path.name.removeprefix(f"{NAME}-"))
    there = [os.path.basename(each) for each in list_whole(folder)]
    if path.name not in there:
        raise DataError(f"{path} is not there, or no longer: {folder} holds {', '.join(there) or 'no checkpoint'}.")
    return NamedWeights(run, _KINDS[kind])


def open_weights_path(path: str) -> str:
    """Returns the path on this machine of a run, or of weights of it; of a URL, in the run's working copy."""
    named = re.fullmatch(rf"(.*?)(/({'|'.join(_KINDS)})(/{NAME}-\d+[^/]*)?)?/?", path) if is_url(path) else None
    return path if named is None else f"{open_folder(named[1])}{named[2] or ''}"


def check_no_weights(output_dir: str) -> None:
    """Raises UsageError if --output_dir names weights of a run instead of the run."""
    named = parse_weights_path(output_dir)
    if named is not None and named.which is not None:
        raise UsageError(
            f"{output_dir} holds weights of a run, and is no run. Give --output_dir={named.run}; commands that take "
            f"one of its checkpoints have --checkpoint={named.which}."
        )
