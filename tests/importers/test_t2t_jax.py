"""Imported models under Keras' JAX backend: the logits are tensor2tensor's, and TensorFlow is not loaded."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from t2t_lite import config
from t2t_lite.importers import t2t_model, tensor2tensor

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import json
import sys
import jax
import keras
import numpy as np
from t2t_lite import config
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_hparams import TransformerHParams

assert keras.backend.backend() == "jax"
stored = dict(np.load(sys.argv[1], allow_pickle=False))
hparams = config.from_dict(TransformerHParams, json.loads(str(stored["hparams"])))
model = Transformer.from_hparams(hparams, int(stored["rows"][0]), int(stored["rows"][1]), bool(stored["shared"]))
for w in model.weights:
    w.assign(stored[w.path])
logits = np.asarray(jax.jit(model)({"source": stored["inputs"], "target": stored["targets"]}))
print(float(np.abs(logits - stored["logits"])[stored["targets"] != 0].max()))
print("heavy:", sorted({"tensorflow", "tensorflow_text", "torch"} & set(sys.modules)))
"""


@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="jax is not installed")
@pytest.mark.parametrize("name", ["base", "base_v1", "cubbitt", "relative"])
def test_logits_are_those_of_tensor2tensor(shared_data: Callable[[str], Path], tmp_path: Path, name: str) -> None:
    folder = shared_data("t2t_golden") / name
    space = json.loads((folder / "made.json").read_text("utf-8"))["target_space_id"]
    imported = tensor2tensor.read([folder], target_space_id=space)
    described = imported.description
    with np.load(folder / "golden.npz") as golden:
        stored = {part: golden[part] for part in ("inputs", "targets", "logits")}
    recipe = t2t_model.recipe(described, imported.hparams)
    stored["hparams"] = np.array(json.dumps(config.to_dict(recipe)))
    stored["rows"] = np.array([described.source_vocab_size, described.target_vocab_size])
    stored["shared"] = np.array(described.shared)
    np.savez(tmp_path / "model.npz", **stored, **dict(imported.weights))
    environment = {**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "model.npz")]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    difference, heavy = done.stdout.split("\n")[:2]
    assert float(difference) <= 2e-5
    assert heavy == "heavy: []"
