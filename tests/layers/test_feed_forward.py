"""The feed-forward networks against their equations."""

import numpy as np
import pytest

from t2t_lite.layers.feed_forward import FeedForward, GatedFeedForward
from tests import reference

B, T, D, F = 3, 5, 16, 40


def _layer(**options: object) -> FeedForward:
    layer = FeedForward(F, **options)
    layer.build((None, None, D))
    draw = np.random.default_rng(3).standard_normal
    layer.bias_1.assign(draw(F))  # biases start at zero, which would hide errors in them
    layer.bias_2.assign(draw(D))
    return layer


def _wanted(layer: FeedForward, x: np.ndarray, activation: str = "relu") -> np.ndarray:
    arrays = [np.asarray(w, np.float64) for w in (layer.kernel_1, layer.bias_1, layer.kernel_2, layer.bias_2)]
    return reference.feed_forward(np.float64(x), *arrays, activation)


def test_equals_equation_2() -> None:
    layer, x = _layer(), np.random.default_rng(1).standard_normal((B, T, D)).astype("float32")
    reference.assert_close(layer(x), _wanted(layer, x), 1e-5)


@pytest.mark.parametrize("activation", ["relu", "swish", "gelu"])
def test_equals_the_equation_of_each_activation_and_of_its_gated_form(activation: str) -> None:
    x = np.random.default_rng(1).standard_normal((B, T, D)).astype("float32")
    plain, gated = _layer(activation=activation), GatedFeedForward(F, activation=activation)
    reference.assert_close(plain(x), _wanted(plain, x, activation), 1e-5)
    found = gated(x)
    assert [weight.name for weight in gated.weights] == ["kernel_1", "gate", "kernel_2"]
    arrays = [np.asarray(weight, np.float64) for weight in gated.weights]
    reference.assert_close(found, reference.gated_feed_forward(np.float64(x), *arrays, activation), 1e-5)


def test_initial_weights_are_glorots_or_within_the_root_of_their_inputs() -> None:
    d_model, d_ff = 256, 512
    for fan_in, bounds in ((False, [(6 / (d_model + d_ff)) ** 0.5] * 2), (True, [d_model**-0.5, d_ff**-0.5])):
        layer = FeedForward(d_ff, fan_in=fan_in)
        layer.build((None, None, d_model))
        for kernel, bound in zip((layer.kernel_1, layer.kernel_2), bounds, strict=True):
            drawn = np.abs(np.asarray(kernel))
            assert 0.99 * bound < drawn.max() <= bound * (1 + 1e-6)
            np.testing.assert_allclose(drawn.mean(), bound / 2, rtol=0.02)


def test_positions_do_not_see_each_other() -> None:
    layer, x = _layer(), np.random.default_rng(1).standard_normal((1, T, D)).astype("float32")
    other = x.copy()
    other[:, 2] += 1
    differs = np.abs(np.asarray(layer(x)) - np.asarray(layer(other))).max(-1)[0] > 1e-6
    assert differs.tolist() == [False, False, True, False, False]


def test_bfloat16_is_within_its_rounding() -> None:
    layer = _layer(dtype="mixed_bfloat16")
    x = np.random.default_rng(1).standard_normal((B, T, D)).astype("bfloat16")
    got = layer(x)
    assert got.dtype == "bfloat16"
    # Two products and two sums of 8 bits, each rounding by up to 2^-9 of its numbers.
    reference.assert_close(np.float32(got), _wanted(layer, x), 2**-6)


def test_dropout_is_on_the_inner_activations() -> None:
    layer, x = _layer(dropout=0.5), np.random.default_rng(1).standard_normal((B, T, D)).astype("float32")
    layer.kernel_1.assign(np.zeros((D, F)))
    layer.bias_1.assign(np.ones(F))
    layer.bias_2.assign(np.zeros(D))
    layer.kernel_2.assign(np.eye(F, D))  # the output is the first D inner activations, 1 each
    seen = np.unique(np.asarray(layer(x, seed=np.array([1, 1, 0], "int32"))))
    np.testing.assert_array_equal(seen, [0, 2])
    np.testing.assert_array_equal(np.unique(np.asarray(layer(x))), [1])
