"""The convolutional encoder-decoder against NumPy; test_contract.py asks what every model must do."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite import config, registry
from t2t_lite.errors import UsageError
from t2t_lite.models.convs2s import ConvS2S
from t2t_lite.models.convs2s_hparams import ConvS2SHParams, parse_layers
from tests import convs2s_reference, reference
from tests.families import BATCH, SOURCE, TARGET, V, build, variants
from tests.families import TINY as ALL

pytestmark = pytest.mark.commit

TINY = ALL["convs2s"]


@pytest.fixture(scope="module", params=variants("convs2s"))
def name(request: Any) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def model(name: str) -> ConvS2S:
    return build("convs2s", variants("convs2s")[name])


def _pairs() -> list[tuple[int, np.ndarray, np.ndarray]]:
    return [(i, s[s > 0], t[t > 0]) for i, (s, t) in enumerate(zip(SOURCE, TARGET, strict=True))]


def _plain(model: ConvS2S) -> convs2s_reference.ConvS2S:
    widths = tuple([layer.width for layer in side.convolutions] for side in (model.encoder, model.decoder))
    return convs2s_reference.ConvS2S(reference.weights_of(model), widths)


def test_logits_and_weights_equal_the_equations(model: ConvS2S) -> None:
    logits, maps = np.asarray(model(BATCH)), np.asarray(model.attention_maps(BATCH)["memory"])
    assert logits.dtype == maps.dtype == np.float32
    assert maps.shape == (3, len(model.decoder.convolutions), 1, 6, 5)
    for i, source, target in _pairs():
        wanted, shares = _plain(model)(source, target)
        reference.assert_close(logits[i, : len(target)], wanted, 1e-5)
        reference.assert_close(maps[i, :, 0, : len(target), : len(source)], shares, 1e-5)
        assert (maps[i, ..., len(source) :] == 0).all()
    np.testing.assert_allclose(maps.sum(-1), 1, atol=1e-6)


def test_logits_are_the_product_with_the_table_and_the_bias(model: ConvS2S) -> None:
    table, bias = (np.asarray(array, np.float64) for array in model.output())
    reference.assert_close(model(BATCH), np.asarray(model.hidden(BATCH), np.float64) @ table.T + bias, 1e-5)


def test_two_vocabularies() -> None:
    model = build("convs2s", TINY, (31, V))
    wanted, _ = _plain(model)(np.array([30, 25, 1]), np.array([4, 1]))
    got = model({"source": np.array([[30, 25, 1]]), "target": np.array([[4, 1]])})
    reference.assert_close(np.asarray(got)[0], wanted, 1e-5)


def test_the_gradient_of_the_encoders_output_is_divided_by_twice_the_layers_that_read_it() -> None:
    model = build("convs2s", TINY)
    embedded, there = np.ones((1, 3, 10), "float32"), np.ones((1, 3, 1), "float32")
    bias = model.encoder.output_projection.bias  # a part of z alone
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model.encoder(embedded, there)[0])
    np.testing.assert_allclose(tape.gradient(loss, bias.value), np.full(10, 3 / (2 * 2)), rtol=1e-6)


@pytest.mark.commit
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_initial_outputs_vary_as_the_paper_wants(precision: str) -> None:
    hparams = config.replace(registry.hparams("convs2s_small"), dropout=0.0, precision=precision)
    model = ConvS2S.from_hparams(hparams, 200, 200, True)
    rng = np.random.default_rng(1)
    ids = {side: rng.integers(2, 200, (4, 30)) for side in ("source", "target")}
    logits = np.asarray(model(ids))
    assert np.isfinite(logits).all()
    assert 0.02 < logits.std() < 2


def _count(hparams: ConvS2SHParams, vocab_size: int) -> int:
    def linear(i: int, o: int) -> int:
        return i * o + 2 * o  # direction, gain and bias

    e, total = hparams.d_model, 2 * (vocab_size + hparams.max_positions) * hparams.d_model
    for side in ("encoder", "decoder"):
        layers = parse_layers(side, getattr(hparams, f"{side}_layers"))
        inputs = layers[0].channels
        total += linear(e, inputs)
        for channels, width in layers:
            total += width * inputs * 2 * channels + 4 * channels
            total += linear(inputs, channels) if inputs != channels else 0
            total += linear(channels, e) + linear(e, channels) if side == "decoder" else 0
            inputs = channels
        total += linear(inputs, e if side == "encoder" else hparams.d_out)
    return total + linear(hparams.d_out, vocab_size)


def test_the_number_of_parameters_is_the_formulas(name: str, model: ConvS2S) -> None:
    assert model.count_params() == _count(variants("convs2s")[name], V)


@pytest.mark.parametrize(
    ("name", "size", "count"),
    [
        ("convs2s_ende", 42_000, 213_669_920),
        ("convs2s_enfr", 44_000, 266_311_616),
        ("convs2s_small", 10_000, 11_644_448),
    ],
)
def test_recipes_have_the_published_numbers_of_parameters(name: str, size: int, count: int) -> None:
    hparams = registry.hparams(name)
    assert isinstance(hparams, ConvS2SHParams)
    assert _count(hparams, size) == count
    with np.load(Path(__file__).resolve().parents[1] / "golden" / "fairseq_convs2s.npz") as file:
        assert count in file["parameters"]  # of fairseq's models


@pytest.mark.parametrize("text", ["", "512x", "0x8x3", "8x3+", "-1x8x3", "2x8x3x1"])
def test_a_list_of_layers_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="encoder_layers=.* is not a list of layers. Give NUMBERxCHANNELSxWIDTH, "):
        config.replace(TINY, encoder_layers=text)


def test_lists_of_layers() -> None:
    assert parse_layers("", "2x8x3 + 4x1") == ((8, 3), (8, 3), (4, 1))
    with pytest.raises(UsageError, match="decoder_layers=300x8x3 is 300 layers; at most 256"):
        config.override(TINY, "decoder_layers=300x8x3")
    with pytest.raises(UsageError, match="give a model of 5.1e\\+12 parameters"):
        config.replace(TINY, encoder_layers="200x65000x3")
