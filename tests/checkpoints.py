"""Contents of checkpoints, for tests that compare two runs bit for bit, and the weights that a run chose."""

from pathlib import Path

import numpy as np
import tensorflow as tf

from t2t_lite.runs.checkpoint import find

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
