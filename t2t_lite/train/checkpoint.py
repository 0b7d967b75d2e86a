"""Checkpoints: weights, Adam's moments and the step, all by the weight's name.

Folders of a run:
    checkpoints/  the newest n, whole: a run goes on from the last one
    best/         the best by dev score, weights only
    averaged/     the mean of the last few, weights only
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from t2t_lite.errors import DataError, UsageError, did_you_mean

NEWEST, BEST, AVERAGED = "checkpoints", "best", "averaged"

# What TensorFlow raises for damaged files; a file that is cut off is an IndexError to its reader.
_READ_ERRORS = (tf.errors.OpError, IndexError, RuntimeError, ValueError)


class Checkpoints:
    """Saves and restores one model.

    Args:
        output_dir: the run's folder.
        model: Keras model; its weights are found by their paths, so that no object's place in a tree matters.
        optimizer: an `Adam`, or None where only weights are wanted.
        keep: how many of the newest stay.
    """

    def __init__(self, output_dir: str | os.PathLike[str], model: Any, optimizer: Any = None, keep: int = 1) -> None:
        self._folder = Path(output_dir)
        self._variables = {w.path: w.value for w in model.weights}
        self._step = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._weights = tf.train.Checkpoint(weights=dict(self._variables), step=self._step)
        self._whole = self._weights
        if optimizer is not None:
            names = [w.path for w in model.trainable_weights]
            self._whole = tf.train.Checkpoint(
                weights=dict(self._variables),
                step=self._step,
                adam_m=dict(zip(names, optimizer.m, strict=True)),
                adam_v=dict(zip(names, optimizer.v, strict=True)),
            )
        self._keep = keep

    def save(self, step: int) -> str:
        """Saves weights, moments and step among the newest; returns the checkpoint's path."""
        return self._save(self._whole, NEWEST, step, self._keep)

    def save_weights(self, kind: str, step: int) -> str:
        """Saves the weights as BEST or AVERAGED, in place of the one before."""
        return self._save(self._weights, kind, step, 1)

    def _save(self, checkpoint: tf.train.Checkpoint, kind: str, step: int, keep: int) -> str:
        self._step.assign(step)
        manager = tf.train.CheckpointManager(
            checkpoint, str(self._folder / kind), max_to_keep=keep, checkpoint_name="model"
        )
        try:
            return str(manager.save(checkpoint_number=step))
        except (tf.errors.OpError, OSError) as error:
            reason = str(error).partition("\n")[0]
            raise DataError(
                f"The checkpoint of step {step} could not be written to {self._folder / kind}: {reason}. The ones "
                "before it are whole; make room and run the same command again."
            ) from error

    def resume(self) -> int:
        """Restores the newest whole checkpoint; returns its step, or 0 where there is none."""
        paths = list_checkpoints(self._folder)
        if not paths:
            return 0
        self._restore(self._whole, paths[-1], partly=False)
        return int(self._step.numpy())

    def load_weights(self, path: str) -> int:
        """Restores only the weights from `path` (see `find`); returns the step they were saved at."""
        self._restore(self._weights, path, partly=True)
        return int(self._step.numpy())

    def average(self, paths: Sequence[str]) -> None:
        """Sets the weights to the mean over `paths` (section 6.1)."""
        sums = {name: np.zeros(v.shape, np.float64) for name, v in self._variables.items()}
        for path in paths:
            self.load_weights(path)
            for name, variable in self._variables.items():
                sums[name] += variable.numpy()
        for name, variable in self._variables.items():
            variable.assign((sums[name] / len(paths)).astype(variable.dtype.as_numpy_dtype))

    def _restore(self, checkpoint: tf.train.Checkpoint, path: str, partly: bool) -> None:
        self._check_shapes(path)
        try:
            status = checkpoint.restore(path)
            status.assert_existing_objects_matched()
            if partly:
                status.expect_partial()
        except (*_READ_ERRORS, AssertionError) as error:
            raise DataError(_damaged(path)) from error

    def _check_shapes(self, path: str) -> None:
        """Says which weight differs, where TensorFlow would only say that some shape does."""
        try:
            shapes = tf.train.load_checkpoint(path).get_variable_to_shape_map()
        except _READ_ERRORS as error:
            raise DataError(_damaged(path)) from error
        for name, variable in self._variables.items():
            key = f"weights/{name.replace('/', '.S')}/.ATTRIBUTES/VARIABLE_VALUE"
            if list(variable.shape) != shapes.get(key):
                raise DataError(
                    f"The checkpoint {path} is of another model: {name} has shape {shapes.get(key, 'none')} there and "
                    f"{list(variable.shape)} here."
                )


def _damaged(path: str) -> str:
    return (
        f"The checkpoint {path} cannot be read: it is damaged or incomplete. Choose another with --checkpoint; to "
        "train on from the one before, delete its files."
    )


def list_checkpoints(output_dir: str | os.PathLike[str], kind: str = NEWEST) -> list[str]:
    """Paths of the checkpoints of one kind, oldest first."""
    state = tf.train.get_checkpoint_state(str(Path(output_dir) / kind))
    paths = list(state.all_model_checkpoint_paths) if state else []
    return [path for path in paths if os.path.exists(path + ".index")]


def find(output_dir: str | os.PathLike[str], which: str | None = None) -> str:
    """Returns the path of a run's checkpoint.

    Args:
        which: "best", "averaged", "newest" or a step; None: the averaged one, else the best, else the newest.

    Raises:
        UsageError: no such checkpoint; the message names those there are.
        DataError: no checkpoint at all.
    """
    kinds = {"averaged": AVERAGED, "best": BEST, "newest": NEWEST}
    by_name = {name: paths[-1] for name, kind in kinds.items() if (paths := list_checkpoints(output_dir, kind))}
    by_name |= {path.rpartition("-")[2]: path for path in list_checkpoints(output_dir)}
    if not by_name:
        raise DataError(f"{output_dir} holds no checkpoint; train first: t2t-lite-trainer --output_dir={output_dir}")
    if which is None:
        return next(iter(by_name.values()))
    if which not in by_name:
        raise UsageError(
            f"There is no checkpoint {which!r} in {output_dir}.{did_you_mean(which, by_name)} "
            f"There are: {', '.join(by_name)}."
        )
    return by_name[which]
