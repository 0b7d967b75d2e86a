"""The same models under Keras' JAX backend: the numbers agree, and TensorFlow is not loaded."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from t2t_lite import config, registry
from tests import convs2s_reference, reference

ROOT = Path(__file__).resolve().parents[2]
V = 23
TINY = "num_layers=1,d_model=16,d_ff=24,num_heads=2"
# Name of a set, a space, and what differs from it.
CASES = (
    f"base {TINY}",
    f"base {TINY},norm=pre,positions=learned,max_positions=9,d_k=5,d_v=3,attention_window=5",
    f"base {TINY},positions=tensor2tensor,max_relative_position=3,source_vector=true,attention_biases=true,"
    "num_decoder_layers=2",
    f"base {TINY},attention_score=additive,positions=opennmt,start_vector=true,output_bias=true,source_end=false,"
    "norm_epsilon=0.001",
    "convs2s_tiny encoder_layers=16x3+12x4,decoder_layers=16x2+12x3+12x1,d_model=10,d_out=7,dropout=0.1",
    "bytenet_tiny num_layers=2,d_model=6,dilations=2,dropout=0.2",
    "moe_tiny d_model=10,cells=6,d_ff=7,dropout=0.1",
)
SCRIPT = """
import sys
import jax
import keras
import numpy as np
from t2t_lite import config, registry

assert keras.backend.backend() == "jax"
stored = dict(np.load(sys.argv[1], allow_pickle=False))
batch = {"source": stored["source"], "target": stored["target"]}
for i, case in enumerate(stored["cases"]):
    name, changes = str(case).split(" ")
    hparams = config.override(registry.hparams(name), changes)
    model = registry.MODELS.get(type(hparams).model).from_hparams(hparams, int(stored["V"]), int(stored["V"]), True)
    for w in model.weights:
        w.assign(stored.pop(f"{i}/{w.path}"))
    call = jax.jit(lambda seed: model(batch, seed=seed))
    logits, wanted = np.asarray(call(None)), stored[f"logits of {i}"]
    np.testing.assert_allclose(logits, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())
    one, again, other = (np.asarray(call(np.array([1, s, 0], "int32"))) for s in (5, 5, 6))
    np.testing.assert_array_equal(one, again)
    assert np.abs(one - other).max() > 1e-3 and np.isfinite(one).all()

    def three_steps():
        fixed, state, step = model.start(model.encode(batch), 1, 3)
        columns = []
        for at in range(3):
            previous = batch["target"][:, at - 1 : at] if at else np.zeros((2, 1), "int32")
            column, state = step(previous, at, fixed, state)
            columns.append(column[:, 0])
        return columns

    for at, got in enumerate(jax.jit(three_steps)()):
        np.testing.assert_allclose(np.asarray(got), logits[:, at], rtol=0, atol=1e-5 * np.abs(wanted).max())
assert not [name for name in stored if "/" in name]
print("heavy:", sorted({"tensorflow", "tensorflow_text", "torch"} & set(sys.modules)))
"""


@pytest.mark.nightly
@pytest.mark.skipif(
    importlib.util.find_spec("jax") is None,
    reason="jax is not installed; `pip install jax` to check the JAX backend",
)
def test_the_same_numbers_without_tensorflow(tmp_path: Path) -> None:
    source = np.array([[5, 9, 3, 17, 1], [7, 7, 1, 0, 0]], "int32")
    source = np.concatenate([np.full((2, 15), 6, "int32"), source], axis=1)  # two blocks of restricted self-attention
    batch = {"source": source, "target": np.array([[4, 8, 1, 0], [6, 5, 12, 1]], "int32")}
    stored = {**batch, "V": np.array(V), "cases": np.array(CASES)}
    for i, case in enumerate(CASES):
        name, changes = case.split(" ")
        hparams = config.override(registry.hparams(name), changes)
        model: Any = registry.MODELS.get(type(hparams).model).from_hparams(hparams, V, V, True)
        (convs2s_reference if name == "convs2s_tiny" else reference).randomise(model, 2)
        stored |= {
            f"logits of {i}": np.asarray(model(batch)),
            **{f"{i}/{w.path}": np.asarray(w) for w in model.weights},
        }
    np.savez(tmp_path / "weights.npz", **stored)
    environment = {**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "weights.npz")]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "heavy: []\n"
