"""Attention maps: their weights equal the equations, and reading them does not change the model."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_lite import config
from t2t_lite.layers.recording import recorder
from t2t_lite.models.moe_hparams import MoeHParams
from t2t_lite.models.rnn_hparams import RnnHParams
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.runs.run_dir import make_model
from tests import reference

pytestmark = pytest.mark.commit

HPARAMS = TransformerHParams(num_layers=2, d_model=16, d_ff=24, num_heads=2, dropout=0.3, attention_dropout=0.3)
SOURCE = np.array([[5, 9, 3, 17, 1], [7, 7, 1, 0, 0]], "int32")
TARGET = np.array([[4, 8, 1, 0], [6, 5, 4, 1]], "int32")
BATCH = {"source": SOURCE, "target": TARGET}
LSTMS: dict[str, Any] = {
    "top": RnnHParams(num_layers=2, d_model=8),
    "gnmt": RnnHParams(num_layers=3, d_model=8, encoder="gnmt", wiring="gnmt"),
    "gnmt_not_fed": RnnHParams(num_layers=3, d_model=8, encoder="gnmt", wiring="gnmt", input_feeding=False),
    "gnmt_v2": RnnHParams(num_layers=3, d_model=8, encoder="gnmt", wiring="gnmt_v2"),
    "moe": MoeHParams(d_model=8, cells=8, d_ff=4, num_experts=4, experts_per_token=4),
}
SHAPES = {"encoder": (2, 2, 2, 5, 5), "decoder": (2, 2, 2, 4, 4), "memory": (2, 2, 2, 4, 5)}


@pytest.fixture(scope="module", params=["post", "pre"])
def model(request: Any) -> Transformer:
    model = Transformer.from_hparams(config.replace(HPARAMS, norm=request.param), 20, 20, True)
    reference.randomise(model, 1, scale=2)  # weights far from equal
    return model


def _arrays(maps: dict[str, Any]) -> dict[str, np.ndarray]:
    return {name: np.asarray(value) for name, value in maps.items()}


@pytest.fixture(scope="module")
def maps(model: Transformer) -> dict[str, np.ndarray]:
    return _arrays(model.attention_maps(BATCH))


def test_equals_the_equations(model: Transformer, maps: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(reference, "softmax", lambda x, softmax=reference.softmax: seen.append(softmax(x)) or seen[-1])
    norm = "pre" if model.encoder.final_norm else "post"
    reference.Transformer(reference.weights_of(model), HPARAMS.num_layers, HPARAMS.num_heads, norm)(SOURCE, TARGET)
    heads = iter(seen)  # one softmax per head, in the order of the layers

    def layer() -> np.ndarray:
        return np.stack([next(heads) for _ in range(HPARAMS.num_heads)], axis=1)

    wanted: dict[str, list[np.ndarray]] = {"encoder": [], "decoder": [], "memory": []}
    wanted["encoder"] = [layer() for _ in range(HPARAMS.num_layers)]
    for _ in range(HPARAMS.num_layers):
        wanted["decoder"].append(layer())
        wanted["memory"].append(layer())
    assert next(heads, None) is None
    assert {name: value.shape for name, value in maps.items()} == SHAPES
    for name, layers in wanted.items():
        assert maps[name].dtype == np.float32
        reference.assert_close(maps[name], np.stack(layers, axis=1), 1e-5)


def test_rows_are_distributions_that_leave_out_padding_and_the_future(maps: dict[str, np.ndarray]) -> None:
    for weights in maps.values():
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)
    assert (maps["encoder"][1, ..., 3:] == 0).all()
    assert (maps["memory"][1, ..., 3:] == 0).all()
    assert (np.triu(maps["decoder"], 1) == 0).all()
    assert np.ptp(maps["encoder"][0], axis=-1).mean() > 0.2  # not merely uniform


@pytest.mark.commit("post")
def test_looking_changes_nothing_nor_does_a_call_that_fails(model: Transformer) -> None:
    before = np.asarray(model(BATCH))
    model.attention_maps(BATCH)
    with pytest.raises(Exception, match="target"):
        model.attention_maps({"source": SOURCE})
    np.testing.assert_array_equal(model(BATCH), before)
    assert {recorder(layer) for layer in model._flatten_layers()} == {None}


@pytest.mark.commit("post")
def test_a_graph_of_any_shape_gives_the_same(model: Transformer, maps: dict[str, np.ndarray]) -> None:
    ids = tf.TensorSpec([None, None], tf.int32)
    function = tf.function(
        lambda source, target: model.attention_maps({"source": source, "target": target}),
        input_signature=[ids, ids],
        autograph=False,
    )
    for rows in (2, 1):
        got = _arrays(function(tf.constant(SOURCE[:rows]), tf.constant(TARGET[:rows])))
        for name, value in got.items():
            np.testing.assert_allclose(value, maps[name][:rows], atol=1e-5)


def test_weights_are_float32_in_bfloat16_as_well() -> None:
    model = Transformer.from_hparams(config.replace(HPARAMS, precision="bfloat16", num_layers=1), 20, 20, True)
    assert {keras.backend.standardize_dtype(m.dtype) for m in model.attention_maps(BATCH).values()} == {"float32"}


def test_stacks_of_different_depth_and_relative_positions() -> None:
    hparams = config.replace(HPARAMS, num_decoder_layers=1, max_relative_position=2)
    model = Transformer.from_hparams(hparams, 20, 20, True)
    reference.randomise(model, 1, scale=2)
    found = _arrays(model.attention_maps(BATCH))
    assert {name: value.shape for name, value in found.items()} == {
        "encoder": SHAPES["encoder"],
        "decoder": (2, 1, *SHAPES["decoder"][2:]),
        "memory": (2, 1, *SHAPES["memory"][2:]),
    }
    for value in found.values():
        np.testing.assert_allclose(value.sum(-1), 1, atol=1e-5)


@pytest.mark.commit("top")
@pytest.mark.parametrize("name", LSTMS)
def test_a_row_has_the_weights_that_its_target_is_predicted_from(name: str) -> None:
    """With other keys, the logits of a target change if its row does, and only then."""
    model: Any = make_model(LSTMS[name].model, LSTMS[name], 20, 20, True)
    reference.randomise(model, 1, scale=2)

    def found() -> tuple[np.ndarray, np.ndarray]:
        return np.asarray(model(BATCH))[1], np.asarray(model.attention_maps(BATCH)["memory"])[1, 0, 0]

    before = found()
    kernel = model.decoder.attention.keys.kernel
    kernel.assign(np.random.default_rng(2).normal(size=kernel.shape) * 3)
    of_logits, of_maps = (np.abs(new - old).max(-1) > 1e-4 for new, old in zip(found(), before, strict=True))
    late = name in ("gnmt", "gnmt_not_fed", "moe")  # the first target is predicted without a context
    assert of_logits.tolist() == of_maps.tolist() == [not late, True, True, True]
    sums = [float(not late), 1, 1, 1]
    np.testing.assert_allclose(found()[1].sum(-1), sums, atol=1e-6)
