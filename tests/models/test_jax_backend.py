"""The same layers under Keras' JAX backend: the numbers agree, and TensorFlow is not loaded."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from t2t_lite import config, registry
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_hparams import TransformerHParams
from tests import convs2s_reference, reference

ROOT = Path(__file__).resolve().parents[2]
V = 23

SCRIPT = """
import sys
import numpy as np
from t2t_lite import config, registry
from t2t_lite.layers import attention, dropout, embedding, feed_forward, local_attention, masks, positions, residual

import jax
import keras
from t2t_lite.models import decoder, encoder, transformer, transformer_cost
from t2t_lite.models.transformer_hparams import TransformerHParams
from tests.plain_cache import PlainCache

assert keras.backend.backend() == "jax"
stored = dict(np.load(sys.argv[1], allow_pickle=False))
for name in ("post", "pre", "relative", "additive"):
    hparams = config.override(TransformerHParams(), str(stored[f"{name}/hparams"]))
    model = registry.MODELS.get("transformer").from_hparams(hparams, int(stored["V"]), int(stored["V"]), True)
    for w in model.weights:
        w.assign(stored.pop(f"{name}/{w.path}"))
    batch = {"source": stored["source"], "target": stored["target"]}
    call = jax.jit(lambda seed: model(batch, seed=seed))
    logits = np.asarray(call(None))
    wanted = stored.pop(f"{name}/logits")
    np.testing.assert_allclose(logits, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())
    one, again, other = (np.asarray(call(np.array([1, s], "int32"))) for s in (5, 5, 6))
    np.testing.assert_array_equal(one, again)
    assert np.abs(one - other).max() > 1e-3 and np.isfinite(one).all()
    memory, bias = jax.jit(model.encode)(batch)

    def three_steps(memory, bias):
        cache, columns = PlainCache(1, model.decoder.keys_values(memory), bias), []
        for at in range(3):
            previous = batch["target"][:, at - 1 : at] if at else np.zeros((2, 1), "int32")
            columns.append(model.logits(model.next_hidden(previous, at, cache.at(at)))[:, 0])
        return columns

    for at, got in enumerate(jax.jit(three_steps)(memory, bias)):
        np.testing.assert_allclose(np.asarray(got), logits[:, at], rtol=0, atol=1e-5 * np.abs(wanted).max())
left = [name for name in stored if "transformer/" in name]
assert not left, left
print("heavy:", sorted({"tensorflow", "tensorflow_text", "torch"} & set(sys.modules)))
"""


pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(
        importlib.util.find_spec("jax") is None,
        reason="jax is not installed; `pip install jax` to check the JAX backend",
    ),
]


def test_the_same_numbers_without_tensorflow(tmp_path: Path) -> None:
    source = np.array([[5, 9, 3, 17, 1], [7, 7, 1, 0, 0]], "int32")
    source = np.concatenate([np.full((2, 15), 6, "int32"), source], axis=1)  # two blocks of restricted self-attention
    target = np.array([[4, 8, 1, 0], [6, 5, 12, 1]], "int32")
    stored = {"source": source, "target": target, "V": np.array(V)}
    pre = ",norm=pre,positions=learned,max_positions=9,d_k=5,d_v=3,attention_window=5"
    relative = ",positions=tensor2tensor,max_relative_position=3,source_vector=true,attention_biases=true"
    relative += ",num_decoder_layers=2"
    opennmt = ",positions=opennmt,start_vector=true,output_bias=true,source_end=false,norm_epsilon=0.001"
    for name, more in (
        ("post", ""),
        ("pre", pre),
        ("relative", relative),
        ("additive", ",attention_score=additive" + opennmt),
    ):
        text = "num_layers=1,d_model=16,d_ff=24,num_heads=2" + more
        model = Transformer.from_hparams(config.override(TransformerHParams(), text), V, V, True)
        reference.randomise(model, 2)
        stored |= {f"{name}/{w.path}": np.asarray(w) for w in model.weights}
        stored |= {
            f"{name}/hparams": np.array(text),
            f"{name}/logits": np.asarray(model({"source": source, "target": target})),
        }
    _assert_runs(SCRIPT, stored, tmp_path)


def _assert_runs(script: str, stored: dict[str, np.ndarray], folder: Path) -> None:
    """Asserts that `script` succeeds under JAX; it reads `stored` from a file."""
    np.savez(folder / "weights.npz", **stored)
    environment = {**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder / "weights.npz")],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "heavy: []\n"


OTHERS = """
import sys
import jax
import keras
import numpy as np
from t2t_lite import config, registry
from t2t_lite.models.convs2s_hparams import ConvS2SHParams

assert keras.backend.backend() == "jax"
stored = dict(np.load(sys.argv[1], allow_pickle=False))
batch = {"source": stored["source"], "target": stored["target"]}
for name in ("convs2s", "bytenet", "moe"):
    hparams = config.override(registry.hparams(f"{name}_tiny"), str(stored[f"hparams of {name}"]))
    model = registry.MODELS.get(name).from_hparams(hparams, int(stored["V"]), int(stored["V"]), True)
    for w in model.weights:
        w.assign(stored.pop(w.path))
    call = jax.jit(lambda seed: model(batch, seed=seed))
    logits, wanted = np.asarray(call(None)), stored[f"logits of {name}"]
    np.testing.assert_allclose(logits, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())
    one, again, other = (np.asarray(call(np.array([1, s], "int32"))) for s in (5, 5, 6))
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


def test_other_models_give_the_same_numbers(tmp_path: Path) -> None:
    batch = {
        "source": np.array([[5, 9, 3, 17, 1], [7, 7, 1, 0, 0]], "int32"),
        "target": np.array([[4, 8, 1, 0], [6, 5, 12, 1]], "int32"),
    }
    texts = {
        "convs2s": "encoder_layers=16x3+12x4,decoder_layers=16x2+12x3+12x1,d_model=10,d_out=7,dropout=0.1",
        "bytenet": "num_layers=2,d_model=6,dilations=2,dropout=0.2",
        "moe": "d_model=10,cells=6,d_ff=7,dropout=0.1",
    }
    stored = {**batch, "V": np.array(V)}
    for name, text in texts.items():
        model: Any = registry.MODELS.get(name)
        model = model.from_hparams(config.override(registry.hparams(f"{name}_tiny"), text), V, V, True)
        (convs2s_reference if name == "convs2s" else reference).randomise(model, 2)
        stored |= {f"hparams of {name}": np.array(text), f"logits of {name}": np.asarray(model(batch))}
        stored |= {w.path: np.asarray(w) for w in model.weights}
    _assert_runs(OTHERS, stored, tmp_path)
