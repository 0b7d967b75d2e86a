"""Layer normalisation against Keras' own, and its gradients against those derived from the equation."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.layers.functions import use
from t2t_lite.layers.layer_norm import EPSILON, LayerNorm, layer_norm
from t2t_lite.ops.layer_norm import layer_norm_with_gradients
from tests import reference


def _layer(width: int, dtype: str = "float32", epsilon: float = EPSILON) -> LayerNorm:
    layer = LayerNorm(epsilon, dtype=dtype)
    layer.build((None, width))
    draw = np.random.default_rng(4).standard_normal
    layer.gamma.assign(1 + 0.3 * draw(width))
    layer.beta.assign(0.3 * draw(width))
    return layer


@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.parametrize("shape", [(7, 16), (2, 3, 16), (2, 2, 3, 5)])
def test_values_and_gradients_are_those_of_the_equation(shape: tuple[int, ...], by_hand: bool) -> None:
    epsilon = 0.5 if len(shape) == 3 else EPSILON
    layer = _layer(shape[-1], epsilon=epsilon)
    draw = np.random.default_rng(1).standard_normal
    x, weights = tf.constant(3 + 2 * draw(shape), tf.float64), tf.constant(draw(shape), tf.float64)
    gamma, beta = (tf.constant(w.numpy(), tf.float64) for w in (layer.gamma, layer.beta))
    with tf.GradientTape() as tape:
        tape.watch([x, gamma, beta])
        mean, variance = tf.nn.moments(x, -1, keepdims=True)
        wanted = (x - mean) / tf.sqrt(variance + epsilon) * gamma + beta
        loss = tf.reduce_sum(wanted * weights)
    wanted_gradients = tape.gradient(loss, [x, gamma, beta])

    x = tf.cast(x, tf.float32)
    with use([(layer_norm, layer_norm_with_gradients)] if by_hand else []), tf.GradientTape() as tape:
        tape.watch(x)
        got = layer(x)
        loss = tf.reduce_sum(got * tf.cast(weights, tf.float32))
    gradients = tape.gradient(loss, [x, layer.gamma.value, layer.beta.value])
    reference.assert_close(got.numpy(), wanted.numpy(), 1e-6)
    for gradient, wanted_gradient in zip(gradients, wanted_gradients, strict=True):
        reference.assert_close(gradient.numpy(), wanted_gradient.numpy(), 2e-6)


@pytest.mark.parametrize(("dtype", "relative"), [("float32", 1e-6), ("mixed_bfloat16", 2**-7)])
def test_equals_that_of_keras(dtype: str, relative: float) -> None:
    ours, theirs = _layer(16, dtype), keras.layers.LayerNormalization(epsilon=EPSILON, dtype=dtype)
    theirs.build((None, 16))
    for name in ("gamma", "beta"):
        getattr(theirs, name).assign(getattr(ours, name))
    x = tf.cast(np.random.default_rng(2).standard_normal((3, 5, 16)), dtype.removeprefix("mixed_"))
    got = ours(x)
    assert got.dtype == x.dtype
    reference.assert_close(np.float32(got), np.float64(np.float32(theirs(x))), relative)


def test_statistics_are_taken_in_float32() -> None:
    layer = LayerNorm(dtype="mixed_bfloat16")
    # Both numbers are exact in bfloat16, their mean 257 is not: it would be 256 or 258.
    x = np.full((1, 16), 256.0)
    x[:, ::2] = 258.0
    got = np.float32(layer(x.astype("bfloat16")))
    np.testing.assert_allclose(got, np.where(x == 258, 1, -1), rtol=2**-7)


def test_a_large_mean_takes_no_digits_from_the_variance() -> None:
    x = 1000 + np.random.default_rng(3).standard_normal((4, 64))
    layer = LayerNorm()
    wanted = reference.layer_norm(np.float64(np.float32(x)), np.ones(64), np.zeros(64))
    reference.assert_close(layer(np.float32(x)).numpy(), wanted, 1e-4)
