"""The residual connection and layer normalisation against sections 3.1 and 5.4."""

import keras
import numpy as np
import pytest

from t2t_lite.layers.residual import Residual
from tests import reference

B, T, D = 2, 3, 16


def _weights(layer: Residual) -> tuple[np.ndarray, np.ndarray]:
    """Changes scale and offset from their initial 1 and 0, and returns them in float64."""
    draw = np.random.default_rng(4).standard_normal
    layer.layer_norm.gamma.assign(1 + 0.3 * draw(D))
    layer.layer_norm.beta.assign(0.3 * draw(D))
    return np.asarray(layer.layer_norm.gamma, np.float64), np.asarray(layer.layer_norm.beta, np.float64)


@pytest.mark.parametrize(("dtype", "relative"), [("float32", 1e-5), ("mixed_bfloat16", 2**-6)])
@pytest.mark.parametrize("norm", ["post", "pre", "deep"])
def test_equals_the_equation(norm: str, dtype: str, relative: float) -> None:
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(dtype)
    try:
        layer = Residual(norm, 0.1, alpha=3.0)
    finally:
        keras.config.set_dtype_policy(before)
    layer.layer_norm.build((None, None, D))
    gamma, beta = _weights(layer)
    x = np.random.default_rng(1).standard_normal((B, T, D)).astype(dtype.removeprefix("mixed_"))
    got = layer(x, sublayer=lambda y: y * y)
    x = np.float64(x)
    if norm != "pre":
        wanted = reference.layer_norm((3 * x if norm == "deep" else x) + x * x, gamma, beta)
    else:
        wanted = x + reference.layer_norm(x, gamma, beta) ** 2
    reference.assert_close(np.float32(got), wanted, relative)


def test_dropout_is_on_the_sublayer_before_the_sum() -> None:
    layer = Residual("pre", 0.5)
    x = np.random.default_rng(1).standard_normal((B, T, D)).astype("float32")
    got = np.asarray(layer(x, sublayer=lambda y: y * 0 + 3, seed=np.array([1, 1, 0], "int32")))
    np.testing.assert_allclose(np.unique(np.round(got - x, 4)), [0, 6])  # x itself is never dropped


def test_a_constant_row_is_finite() -> None:
    layer = Residual("post", 0.0)
    got = np.asarray(layer(np.zeros((B, T, D), "float32"), sublayer=lambda y: y))
    np.testing.assert_array_equal(got, 0)
