"""Rotary positions against the matrices of their paper."""

import keras
import numpy as np
import pytest

from t2t_lite.layers.attention import MultiHeadAttention
from t2t_lite.layers.rotary import rotate
from tests import reference

B, T, H, K, D = 2, 40, 3, 8, 12


def _draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape).astype("float32")


@pytest.mark.parametrize("size", [2, 6, 64])
def test_equals_the_matrices(size: int) -> None:
    x = _draw(B, T, H, size)
    wanted = np.swapaxes(reference.turn(np.swapaxes(np.float64(x), 1, 2)), 1, 2)
    reference.assert_close(rotate(x, np.arange(T)), wanted, 1e-5)
    for place in (0, 7):  # of a search's step
        got = rotate(x[:, :5], place)
        one = np.broadcast_to(x[:, :5, None], (B, 5, T, H, size)).swapaxes(2, 3)
        reference.assert_close(got, reference.turn(np.float64(one))[..., place, :], 1e-5)


def test_scores_depend_on_distances_alone() -> None:
    query, key = _draw(1, 1, 1, K), _draw(2, 1, 1, K)[1:]
    near, far = (np.asarray(rotate(query, at)) @ np.asarray(rotate(key, at - 3))[0, 0].T for at in (3, 500))
    np.testing.assert_allclose(near, far, atol=2e-4)
    assert abs(near - np.asarray(rotate(query, 3)) @ np.asarray(rotate(key, 1))[0, 0].T).max() > 1e-2


def test_bfloat16_is_computed_in_float32() -> None:
    x = keras.ops.cast(_draw(B, T, H, K), "bfloat16")
    got = rotate(x, np.arange(900, 900 + T))  # in bfloat16 position 901 would be 900
    assert keras.backend.standardize_dtype(got.dtype) == "bfloat16"
    exact = rotate(keras.ops.cast(x, "float32"), np.arange(900, 900 + T))
    np.testing.assert_array_equal(np.float32(got), np.float32(keras.ops.cast(exact, "bfloat16")))


def test_attention_turns_queries_and_keys() -> None:
    layer = MultiHeadAttention(H, K, 5, biases=True, rotary=True)
    layer.build((None, None, D))
    reference.randomise(layer, 2)
    x, weights = _draw(B, T, D), {w.name: np.asarray(w, np.float64) for w in layer.weights}
    matrices = [weights[name] for name in ("query", "key", "value", "output")]
    wanted = reference.multi_head(
        x, x, *matrices, H, biases=(weights["query_bias"], weights["output_bias"]), rotary=True
    )
    reference.assert_close(layer(x), wanted, 1e-5)
