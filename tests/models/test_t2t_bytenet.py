"""tensor2tensor's variant of ByteNet against tensor2tensor itself, with its weights.

tests/golden/tensor2tensor_bytenet.py wrote the numbers, and says what cannot be compared.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite import config, registry
from t2t_lite.models.bytenet import ByteNet
from tests import reference

pytestmark = pytest.mark.commit

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "tensor2tensor_bytenet.npz"
COLUMNS = 50  # of every sentence in that file


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    with np.load(GOLDEN, allow_pickle=False) as file:
        return dict(file)


@pytest.fixture(scope="module")
def model(golden: dict[str, np.ndarray]) -> ByteNet:
    symbols = golden["source"].shape[1]
    sizes = {"num_layers": 2, "d_model": 8, "dilations": 3, "dropout": 0.0}
    unfolding = {"unfold_factor": 1.0, "unfold_extra": COLUMNS - symbols}
    hparams: Any = config.replace(registry.hparams("t2t_bytenet"), **sizes, **unfolding)
    vocab_size = golden["logits"].shape[-1]
    model = ByteNet.from_hparams(hparams, vocab_size, vocab_size, True)
    paths = {weight.path.removeprefix("bytenet/") for weight in model.weights}
    assert paths == {name.removeprefix("weights/") for name in golden if name.startswith("weights/")}
    for weight in model.weights:
        weight.assign(golden[f"weights/{weight.path.removeprefix('bytenet/')}"])
    return model


def test_logits_are_those_of_tensor2tensor(model: ByteNet, golden: dict[str, np.ndarray]) -> None:
    logits = np.asarray(model({side: golden[side] for side in ("source", "target")}))
    there = golden["target"] > 0
    assert there.sum() == 12
    reference.assert_close(logits[there], golden["logits"][there], 1e-5)


def test_gradients_are_those_of_tensor2tensor(model: ByteNet, golden: dict[str, np.ndarray]) -> None:
    with tf.GradientTape() as tape:
        logits = model({side: golden[side] for side in ("source", "target")})
        loss = tf.reduce_sum(logits * golden["factors"].astype("float32"))
    gradients = tape.gradient(loss, [weight.value for weight in model.trainable_weights])
    for weight, gradient in zip(model.trainable_weights, gradients, strict=True):
        wanted = golden[f"gradients/{weight.path.removeprefix('bytenet/')}"]
        assert np.abs(wanted).max() > 0
        reference.assert_close(tf.convert_to_tensor(gradient), wanted, 2e-5)


@pytest.mark.commit
def test_the_recipe_has_as_many_parameters_as_tensor2tensors(golden: dict[str, np.ndarray]) -> None:
    with tf.Graph().as_default():  # in a graph, weights are only shapes
        count = ByteNet.from_hparams(registry.hparams("t2t_bytenet"), 1000, 1000, True).count_params()
    assert count == golden["parameters"] == 62_529_024
