"""A model that is saved, the contents of checkpoints, for tests that compare two runs, and the weights of a run."""

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from t2t_lite.optimizers.adam import Adam
from t2t_lite.runs.checkpoint import Checkpoints, find

Tensors = dict[str, np.ndarray]


def tensors(run: Path, step: int) -> Tensors:
    """Returns all numbers of a run's checkpoint: weights, the optimizer's slots, the schedule's memory, the step."""
    reader = tf.train.load_checkpoint(str(run / "checkpoints" / f"model-{step}"))
    keys = [key for key in reader.get_variable_to_shape_map() if not key.startswith(("run/", "_CHECKPOINTABLE"))]
    return {key: reader.get_tensor(key) for key in keys}


def assert_same_bits(found: Tensors, expected: Tensors) -> None:
    """Fails with the name of the first tensor that differs in a bit."""
    assert found.keys() == expected.keys()
    assert any(key.startswith("weights/") for key in expected)
    for key, tensor in expected.items():
        np.testing.assert_array_equal(found[key], tensor, err_msg=key)


def default_weights(run: Path) -> str:
    """Returns the weights that the trainer chose on dev, such as "averaged/model-120".

    On another processor it may choose the best ones.
    """
    return str(Path(find(run)).relative_to(run))


class SavedModel:
    """A model, its optimizer and their checkpoints."""

    def __init__(self, model: Any, folder: Path, keep: int = 3) -> None:
        self.model = model
        self.adam = Adam([w.value for w in model.trainable_weights], 0.9, 0.98, 1e-9)
        self.checkpoints = Checkpoints(folder, model, self.adam, keep=keep)
        self._variables = [*self.adam.variables, *self.adam.m, *self.adam.v]

    def randomize(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        for variable in self._variables:
            variable.assign(random.normal(size=variable.shape).astype(np.float32))

    def fill(self, value: float) -> None:
        for variable in self._variables:
            variable.assign(np.full(variable.shape, value, np.float32))

    def weights(self) -> dict[str, np.ndarray]:
        return {w.path: w.value.numpy() for w in self.model.weights}

    def state(self) -> list[np.ndarray]:
        return [variable.numpy() for variable in self._variables]
