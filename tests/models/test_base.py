"""The contract of a model: errors name what breaks it, and optional members have defaults."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from t2t_lite.errors import UsageError
from t2t_lite.models.base import Cost, Model, check_model
from t2t_lite.models.rnn import Rnn
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_hparams import TransformerHParams


class _Whole(Model):
    """Has all members that a model must have."""

    @classmethod
    def from_hparams(cls, hparams: Any, source_vocab_size: int, target_vocab_size: int, shared: bool) -> "_Whole":
        return cls()

    @property
    def cost(self) -> Cost:
        raise NotImplementedError

    def encode(self, batch: Any, seed: Any = None) -> Any: ...
    def hidden(self, batch: Any, seed: Any = None) -> Any: ...
    def output(self) -> Any: ...
    def start(self, memory: Any, beam_size: int, steps: Any) -> Any: ...


class _Lacking(Model):
    def encode(self, batch: Any) -> Any: ...
    def hidden(self, batch: Any, seed: Any = None) -> Any: ...


class _Swapped(_Whole):
    def reorder(self, parents: Any, state: Any) -> Any: ...


BATCH = {"source": np.array([[3, 4, 1], [5, 1, 0]]), "target": np.array([[3, 4, 1], [5, 1, 0]])}


@pytest.fixture(scope="module")
def transformer() -> Transformer:
    hparams = TransformerHParams(num_layers=1, d_model=16, d_ff=32, num_heads=2, dropout=0.5)
    return Transformer.from_hparams(hparams, 30, 30, True)


@pytest.mark.commit
def test_a_call_for_training_draws_a_seed(transformer: Transformer) -> None:
    keras.utils.set_random_seed(1)
    one, other = (transformer(BATCH, training=True).numpy() for _ in range(2))
    keras.utils.set_random_seed(1)
    np.testing.assert_array_equal(transformer(BATCH, training=True), one)
    plain = transformer(BATCH).numpy()
    assert min(np.abs(one - plain).max(), np.abs(other - plain).max(), np.abs(one - other).max()) > 0.1
    seeded = transformer(BATCH, seed=np.array([1, 2, 0], "int32")).numpy()
    np.testing.assert_array_equal(transformer(BATCH, seed=np.array([1, 2, 0], "int32"), training=True), seeded)
    np.testing.assert_array_equal(transformer(BATCH, training=False), plain)


@pytest.mark.parametrize(
    ("call", "way"),
    [
        (lambda model: model.compile("adam", "sparse_categorical_crossentropy"), "Train with t2t_lite.train"),
        (lambda model: model.fit(BATCH, BATCH["target"]), "Train with t2t_lite.train"),
        (lambda model: model.evaluate(BATCH, BATCH["target"]), "t2t-lite-eval evaluates"),
        (lambda model: model.generate(["a house"]), r"t2t_lite.load\(RUN\)\.generate\(lines\)"),
        (lambda model: model.quantize("int8"), r"t2t_lite.load\(RUN, precision='int8'\)"),
        (lambda model: model.export("folder"), "Use t2t-lite-exporter"),
        (lambda model: _Whole().to_json(), r"open it with t2t_lite.load\(RUN\)"),
    ],
)
def test_what_keras_would_do_wrong_names_the_way(transformer: Transformer, call: Any, way: str) -> None:
    with pytest.raises(UsageError, match=way):
        call(transformer)


@pytest.mark.commit
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # in Keras' save_weights
def test_what_keras_does_right(transformer: Transformer, tmp_path: Path) -> None:
    np.testing.assert_allclose(transformer.predict(BATCH, verbose=0), transformer(BATCH), atol=1e-5)
    weights = transformer.get_weights()
    transformer.save_weights(tmp_path / "model.weights.h5")
    transformer.set_weights([0 * value for value in weights])
    transformer.load_weights(tmp_path / "model.weights.h5")
    for found, wanted in zip(transformer.get_weights(), weights, strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("model", [Transformer, Rnn, _Whole])
def test_who_keeps_it_passes(model: type) -> None:
    check_model("name", model)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (dict, r"The model 'mine' \(<class 'dict'>\) does not derive from t2t_lite.models.base.Model, which says what"),
        (lambda: None, "does not derive from t2t_lite.models.base.Model"),
        (
            _Lacking,
            r"'mine' \(_Lacking\) does not keep the contract of t2t_lite.models.base.Model: it has no cost, "
            r"from_hparams, output, start; encode takes \(batch\), not \(batch, seed\)\.$",
        ),
        (_Swapped, r"Model: reorder takes \(parents, state\), not \(state, parents\)\.$"),
    ],
)
def test_each_fault_is_named(model: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check_model("mine", model)


def test_by_default_the_rows_of_hypotheses_are_gathered_and_all_else_stays() -> None:
    draw = np.random.default_rng(1)
    state = {"h": draw.standard_normal((3, 4, 5)), "ids": draw.integers(0, 9, (3, 4)), "step": np.int32(7)}
    parents = draw.integers(0, 4, (3, 4)).astype("int32")
    found = _Whole().reorder(state, parents)
    for name in ("h", "ids"):
        wanted = np.stack([state[name][b, parents[b]] for b in range(3)])
        np.testing.assert_array_equal(np.asarray(found[name]), wanted.astype(np.asarray(found[name]).dtype))
    assert found["step"] == 7
    assert not bool(_Whole().is_full(state))
    assert _Whole().renew(state, 3) is state
