"""Checkpoints of TensorFlow 1, read by TensorFlow 2; several of them as their mean."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from t2t_lite.errors import DataError, UsageError, check_tensorflow_path
from t2t_lite.runs.checkpoint_files import LAST_STEP
from t2t_lite.runs.checkpoint_reader import explain_unreadable, open_checkpoint

_NEWEST = re.compile(r'^model_checkpoint_path: "(.+)"', re.MULTILINE)


class Tf1Checkpoints:
    """One checkpoint, or several of one model whose mean is taken.

    Args:
        prefixes: paths without the files' endings, the newest last.
        bfloat16: function that decodes numbers stored as bfloat16 to float32; default: they are taken as they are.

    Raises:
        DataError: a checkpoint is missing, cannot be read, or has other variables than the first.
    """

    def __init__(self, prefixes: Sequence[str], bfloat16: Callable[[Any], Any] = np.asarray) -> None:
        self.prefixes, self._bfloat16 = list(prefixes), bfloat16
        self._readers = [_open(prefix) for prefix in self.prefixes]
        shapes = [reader.get_variable_to_shape_map() for reader in self._readers]
        self.shapes: dict[str, tuple[int, ...]] = {name: tuple(shape) for name, shape in sorted(shapes[0].items())}
        for prefix, other in zip(self.prefixes, shapes, strict=True):
            if other != shapes[0]:
                name = min(name for name in {*other, *shapes[0]} if other.get(name) != shapes[0].get(name))
                raise DataError(
                    f"{prefix} and {self.prefixes[0]} are not checkpoints of one training: {name} has shape "
                    f"{other.get(name, 'none')} in the first and {shapes[0].get(name, 'none')} in the second."
                )

    def each(self, name: str) -> list[Any]:
        """Returns a variable in float32, as it is in each checkpoint; DataError if it cannot be read."""
        found = []
        for prefix, reader in zip(self.prefixes, self._readers, strict=True):
            with explain_unreadable(prefix):
                stored = reader.get_tensor(name)
            if np.asarray(stored).dtype.kind in "OSUc":  # texts, complex numbers
                raise DataError(f"{prefix}: {name} holds no numbers that a weight could have.")
            array = np.asarray(stored, np.float32)
            if stored.dtype == tf.bfloat16:
                array = self._bfloat16(array)
            if not np.isfinite(array).all():
                raise DataError(f"{prefix}: {name} holds numbers that are not finite: its training had diverged.")
            found.append(array)
        return found

    def mean(self, name: str) -> Any:
        """Returns a variable's mean over the checkpoints, float32."""
        arrays = self.each(name)
        return arrays[0] if len(arrays) == 1 else np.mean(arrays, axis=0, dtype=np.float64).astype(np.float32)


def find(path: str | os.PathLike[str], number: int = 1) -> list[str]:
    """Returns the prefixes of the checkpoints that `path` names, the newest last.

    Args:
        path: a folder, or a prefix such as FOLDER/model.ckpt-250000, with or without a file's ending.
        number: how many of a folder's checkpoints; the newest is the one that the folder's file `checkpoint` names, if
            that is there.

    Raises:
        UsageError: there are fewer checkpoints, or `path` names one and not a folder.
    """
    check_tensorflow_path(os.fspath(path), path)
    if not os.path.isdir(path):
        if number > 1:
            raise UsageError(
                f"{path} is not a folder, of which --average={number} takes the newest {number} checkpoints. Give the "
                "folder, or the checkpoints themselves as A,B,... without --average."
            )
        return [_check_step(re.sub(r"\.(index|meta|data-\d+-of-\d+)$", "", os.fspath(path)))]
    folder = Path(path)
    prefixes = sorted((str(file.with_suffix("")) for file in folder.glob("*.index")), key=step_of)
    state = folder / "checkpoint"
    named = _NEWEST.search(state.read_text("utf-8", "replace")) if state.is_file() else None
    newest = str(folder / os.path.basename(named[1])) if named else ""  # written in a folder that may have moved since
    if newest in prefixes:
        name = _name(newest)
        prefixes = [prefix for prefix in prefixes if _name(prefix) == name and step_of(prefix) <= step_of(newest)]
    if not prefixes:
        raise UsageError(f"{path} holds no checkpoint: there is no file whose name ends in .index.")
    if len(prefixes) < number:
        raise UsageError(f"{path} holds {len(prefixes)} checkpoints, and {number} are to be averaged.")
    return [_check_step(prefix) for prefix in prefixes[-number:]]


def _check_step(prefix: str) -> str:
    """Raises DataError if the name of a checkpoint says a step that none could have."""
    if step_of(prefix) > LAST_STEP:
        raise DataError(f"{prefix}: no training makes {step_of(prefix):,} steps. Give the checkpoint another name.")
    return prefix


def _open(prefix: str) -> Any:
    if not os.path.isfile(f"{prefix}.index"):
        raise DataError(f"There is no checkpoint {prefix}: no file {os.path.basename(prefix)}.index is there.")
    return open_checkpoint(prefix)


def _name(prefix: str) -> str:
    return re.sub(r"-\d+$", "", prefix)


def step_of(prefix: str) -> int:
    """The step at the end of a checkpoint's name, or -1."""
    found = re.search(r"-(\d+)$", prefix)
    return int(found[1]) if found else -1
