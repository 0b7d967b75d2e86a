"""Layers and models are rebuilt from what Keras keeps of them, and Keras saves and loads each model."""

import importlib
import json
import pkgutil
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import t2t_lite.keras
from t2t_lite import config, registry
from t2t_lite import layers as layers_package
from t2t_lite import models as models_package
from t2t_lite.models.balance import Balance
from t2t_lite.models.base import Model
from t2t_lite.models.decoder import Decoder
from t2t_lite.models.encoder import Encoder
from t2t_lite.models.ensemble import Ensemble
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.runs.run_dir import make_model

V = 30
SETS = {
    "tiny": "precision=bfloat16",
    "base": "num_layers=1,d_model=16,num_heads=2,d_ff=24,norm=pre,positions=learned,ffn=gated,start_vector=true",
    "rnn_tiny": "attention_score=normed_additive",
    "convs2s_tiny": "",
    "bytenet_tiny": "",
    "moe_tiny": "",
    "transformer_moe_tiny": "",
}
BATCH = {"source": np.array([[3, 4, 1], [5, 1, 0]], "int32"), "target": np.array([[3, 4, 1], [5, 1, 0]], "int32")}


def _model(name: str) -> Any:
    hparams = config.override(registry.hparams(name), SETS[name])
    return make_model(registry.model_of(name), hparams, V, V, shared=True)


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    return {name: _model(name) for name in SETS}


def _ours() -> set[type]:
    """The public layers and models, without two bases and what is made of several runs."""
    folders = (layers_package, models_package)
    names = [f"{folder.__name__}.{found.name}" for folder in folders for found in pkgutil.iter_modules(folder.__path__)]
    kinds = {kind for name in names for kind in vars(importlib.import_module(name)).values() if isinstance(kind, type)}
    ours = {kind for kind in kinds if issubclass(kind, keras.layers.Layer) and kind.__module__.startswith("t2t_lite")}
    called = {kind for kind in ours if kind.call is not keras.layers.Layer.call and not kind.__name__.startswith("_")}
    return called - {Model, Balance, Ensemble}


def test_every_layer_and_model_is_registered() -> None:
    ours = _ours()
    assert len(ours) > 30
    assert {kind: keras.saving.get_registered_object(f"t2t_lite>{kind.__name__}") for kind in ours} == {
        kind: kind for kind in ours
    }
    assert {kind for kind in vars(t2t_lite.keras).values() if isinstance(kind, type)} == ours


def test_every_layer_and_model_is_rebuilt_from_its_config(models: dict[str, Any]) -> None:
    seen = set()
    for model in models.values():
        for layer in model._flatten_layers():
            kept = json.dumps(layer.get_config())
            again = type(layer).from_config(json.loads(kept))
            assert json.dumps(again.get_config()) == kept, type(layer)
            seen.add(type(layer))
        again = type(model).from_config(json.loads(json.dumps(model.get_config())))
        assert [(w.path, w.shape) for w in again.weights] == [(w.path, w.shape) for w in model.weights]
        assert again.compute_dtype == model.compute_dtype
    assert seen >= {kind for kind in _ours() if not issubclass(kind, Model)}


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # in Keras' save
@pytest.mark.parametrize("name", SETS)
def test_keras_saves_and_loads_a_model(models: dict[str, Any], name: str, tmp_path: Path) -> None:
    model = models[name]
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded) is type(model)
    assert loaded.hparams == model.hparams
    np.testing.assert_array_equal(loaded(BATCH), model(BATCH))
    assert loaded.cost == model.cost


def test_encoder_and_decoder_stand_alone() -> None:
    hparams = TransformerHParams(num_layers=2, num_decoder_layers=1, d_model=16, d_ff=24, num_heads=2)
    x = np.random.default_rng(1).standard_normal((2, 5, 16)).astype("float32")
    encoder, decoder = Encoder(hparams), Decoder(hparams)
    for layer, inputs, blocks in ((encoder, (x,), 2), (decoder, (x, x), 1)):
        wanted = layer(*inputs)
        again = type(layer).from_config(layer.get_config())
        again(*inputs)
        again.set_weights(layer.get_weights())
        np.testing.assert_array_equal(again(*inputs), wanted)
        assert len(again.blocks) == blocks
