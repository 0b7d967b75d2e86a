"""All kinds of LSTM encoder-decoders against torch's modules (tests/golden/torch_rnn.py wrote the numbers)."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.models.rnn import Rnn
from t2t_lite.models.rnn_hparams import RnnHParams
from tests import reference

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "torch_rnn.npz"
ADDITIVE: dict[str, Any] = {"attention_score": "additive", "num_layers": 2}
GNMT: dict[str, Any] = {"encoder": "gnmt", "attention_score": "additive", "num_layers": 3}
CASES: dict[str, dict[str, Any]] = {
    "mlperf": {
        "encoder": "gnmt",
        "wiring": "gnmt_v2",
        "attention_score": "normed_additive",
        "num_layers": 4,
        "input_feeding": False,
    },
    "gnmt": {**GNMT, "wiring": "gnmt"},
    "both_ways": {**ADDITIVE, "encoder": "bi", "wiring": "attention_wrapper"},
    "parser": {**ADDITIVE, "encoder": "reversed", "wiring": "vinyals"},
    "gnmt_v2": {**GNMT, "wiring": "gnmt_v2", "attention_score": "normed_additive", "softmax_bias": False},
    "tied": {"num_layers": 2, "share_embeddings": True},
    "dot": {"num_layers": 1, "attention_score": "dot"},
    "interleaved": {"encoder": "interleaved", "num_layers": 2, "attention_score": "product", "input_feeding": False},
}


@pytest.mark.commit("dot")
@pytest.mark.parametrize("name", CASES)
def test_logits_attention_and_gradients_are_those_of_torch(name: str) -> None:
    with np.load(GOLDEN, allow_pickle=False) as file:
        start = f"{name}/"
        golden = {key.removeprefix(start): file[key] for key in file if key.startswith(start) or "/" not in key}
    targets = golden["weights/target_embedding/table"]
    sources = golden.get("weights/source_embedding/table", targets)  # if tied, one table is all three
    changes = {"share_embeddings": False, **CASES[name]}
    hparams = RnnHParams(d_model=targets.shape[1], dropout=0.0, **changes)
    model = Rnn.from_hparams(hparams, len(sources), len(targets), hparams.share_embeddings)
    paths = [weight.path.removeprefix(f"{model.name}/") for weight in model.weights]
    assert sorted(paths) == sorted(key.removeprefix("weights/") for key in golden if key.startswith("weights/"))
    for weight, path in zip(model.weights, paths, strict=True):
        weight.assign(golden[f"weights/{path}"])
    batch = {side: tf.constant(golden[side]) for side in ("source", "target")}
    there = golden["target"] > 0
    assert there.sum() == 16
    maps, wanted = np.asarray(model.attention_maps(batch)["memory"])[:, 0, 0], golden["attention"]
    if name == "gnmt":  # golden has the weights that each position looks up, which the next one uses
        wanted = np.pad(wanted[:, :-1], ((0, 0), (1, 0), (0, 0)))
    np.testing.assert_allclose(maps[there], wanted[there], rtol=0, atol=1e-5)

    @tf.function(autograph=False)
    def step() -> tuple[Any, Any]:
        with tf.GradientTape() as tape:
            logits = model(batch)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["target"], logits)
            loss = tf.reduce_sum(losses * tf.cast(there, tf.float32))
        gradients = tape.gradient(loss, [weight.value for weight in model.weights])
        return logits, [tf.convert_to_tensor(gradient) for gradient in gradients]

    logits, gradients = step()
    np.testing.assert_allclose(np.asarray(logits)[there], golden["logits"][there], rtol=0, atol=1e-5)
    for path, gradient in zip(paths, gradients, strict=True):
        reference.assert_close(gradient, golden[f"gradients/{path}"].astype(np.float64), 3e-5)
