"""Multi-head attention against equation (1) and section 3.2.2."""

import numpy as np
import pytest

from t2t_lite.layers.attention import MultiHeadAttention
from t2t_lite.layers.masks import ILLEGAL
from t2t_lite.layers.recording import record
from tests import reference
from tests.plain_cache import PlainCache

B, T, S, D, H, K, V = 3, 5, 7, 16, 4, 3, 6


def _layer(dtype: str = "float32") -> MultiHeadAttention:
    layer = MultiHeadAttention(H, K, V, dtype=dtype)
    layer.build((None, None, D), (None, None, D))
    reference.randomise(layer, 2)  # the same weights, whatever ran before
    return layer


def _draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).standard_normal(shape).astype("float32")


def _wanted(layer: MultiHeadAttention, x: np.ndarray, memory: np.ndarray, allowed: np.ndarray | None) -> np.ndarray:
    matrices = [np.asarray(w, np.float64) for w in (layer.query, layer.key, layer.value, layer.output_kernel)]
    return reference.multi_head(np.float64(x), np.float64(memory), *matrices, heads=H, allowed=allowed)


def test_shapes_of_the_matrices_are_the_papers() -> None:
    layer = _layer()
    shapes = [tuple(w.shape) for w in (layer.query, layer.key, layer.value, layer.output_kernel)]
    assert shapes == [(D, H * K), (D, H * K), (D, H * V), (H * V, D)]
    assert len(layer.weights) == 4  # no bias terms


@pytest.mark.parametrize("gain", [1.0, 0.5**0.5])
def test_initial_weights_of_queries_keys_and_values_are_glorots_times_the_gain(gain: float) -> None:
    layer = MultiHeadAttention(4, 64, 64, gain=gain)
    layer.build((None, None, 256), (None, None, 256))
    bound = (6 / (256 + 256)) ** 0.5  # Glorot and Bengio (2010), equation (16)
    for kernel, factor in ((layer.query, gain), (layer.key, gain), (layer.value, gain), (layer.output_kernel, 1)):
        drawn = np.abs(np.asarray(kernel))
        assert 0.99 * factor * bound < drawn.max() <= factor * bound * (1 + 1e-6)
        np.testing.assert_allclose(drawn.mean(), factor * bound / 2, rtol=0.02)


def test_equals_the_equations_with_free_d_k_and_d_v() -> None:
    layer, x, memory = _layer(), _draw(B, T, D), _draw(B, S, D)
    reference.assert_close(layer(x, memory), _wanted(layer, x, memory, None), 1e-5)


def test_masked_scores_count_as_minus_infinity() -> None:
    layer, x, memory = _layer(), _draw(B, T, D), _draw(B, S, D)
    allowed = np.random.default_rng(1).random((B, T, S)) < 0.5
    allowed[:, :, 0] = True
    bias = np.where(allowed, 0, ILLEGAL).astype("float32")[:, None]
    got = layer(x, memory, bias=bias)
    reference.assert_close(got, _wanted(layer, x, memory, allowed), 1e-5)
    hidden = np.where(allowed.any(1)[:, :, None], memory, 1e3)  # positions that no query sees must not matter
    np.testing.assert_array_equal(layer(x, hidden.astype("float32"), bias=bias), got)


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_a_row_in_which_all_is_masked_is_the_mean_of_the_values(dtype: str) -> None:
    layer, x, memory = _layer(dtype), _draw(B, T, D), _draw(B, S, D)
    if dtype != "float32":
        x, memory = x.astype("bfloat16"), memory.astype("bfloat16")
    got = layer(x, memory, bias=np.full((B, 1, 1, S), ILLEGAL, "float32"))
    value, output = (np.asarray(w, np.float64) for w in (layer.value, layer.output_kernel))
    mean = np.float64(memory).mean(1, keepdims=True) @ value @ output
    reference.assert_close(got, np.broadcast_to(mean, (B, T, D)), 1e-5 if dtype == "float32" else 3e-2)


def test_bfloat16_is_within_its_rounding() -> None:
    layer, x, memory = _layer("mixed_bfloat16"), _draw(B, T, D).astype("bfloat16"), _draw(B, S, D).astype("bfloat16")
    got = layer(x, memory)
    assert got.dtype == "bfloat16"
    # 8 bits: each of the four successive products rounds its numbers by up to 2^-9; 2^-6 leaves room for their sums.
    reference.assert_close(np.float32(got), _wanted(layer, x, memory, None), 2**-6)


def test_self_attention_in_one_product_gives_the_same() -> None:
    layer, x = _layer(), _draw(B, T, D)
    wanted = _wanted(layer, x, x, None)
    reference.assert_close(layer(x), wanted, 1e-5)
    reference.assert_close(layer(x, x), wanted, 1e-5)


def test_with_a_cache_it_gives_the_same() -> None:
    layer, x, memory = _layer(), _draw(B, T, D), _draw(B, S, D)
    keys, values = layer.keys_values(memory)
    assert tuple(keys.shape) == (B, H, S, K)
    assert tuple(values.shape) == (B, H, S, V)
    (cache,) = PlainCache(T, [(keys, values)], None).layers
    allowed = np.random.default_rng(1).random((B, 1, T, S)) < 0.5
    for bias in (None, np.where(allowed, 0, ILLEGAL).astype("float32")):
        got = layer(x, (keys, values), bias, cache=cache)
        reference.assert_close(got, np.float64(layer(x, memory, bias)), 1e-6)
    first = np.where(np.arange(T + 1) == 0, ILLEGAL, 0).astype("float32")  # hides the slot that is not written
    got = layer(x, bias=np.broadcast_to(first, (B, 1, T, T + 1)), cache=cache)
    reference.assert_close(got, np.float64(layer(x)), 1e-6)


@pytest.mark.parametrize("reach", [1, 2, 9])
def test_relative_positions_and_biases_equal_their_equations(reach: int) -> None:
    layer = MultiHeadAttention(H, K, V, max_relative_position=reach, biases=True)
    layer.build((None, None, D))
    reference.randomise(layer, 2)
    x = _draw(B, T, D)
    weights = {w.name: np.asarray(w, np.float64) for w in layer.weights}
    matrices = [weights[name] for name in ("query", "key", "value", "output")]
    relative, biases = (
        (weights[first], weights[second])
        for first, second in (("relative_keys", "relative_values"), ("query_bias", "output_bias"))
    )
    assert relative[0].shape == (2 * reach + 1, K)
    assert relative[1].shape == (2 * reach + 1, V)
    allowed = np.tril(np.ones((T, T), bool))
    bias = np.where(allowed, 0, ILLEGAL).astype("float32")[None, None]
    wanted = reference.multi_head(x, x, *matrices, H, allowed[None], biases, relative)
    reference.assert_close(layer(x, bias=bias), wanted, 1e-5)
    with record([layer]) as seen:
        reference.assert_close(layer(x, bias=bias), wanted, 1e-5)
    assert seen[0].shape == (B, H, T, T)


def test_biases_of_keys_and_values_are_in_those_of_queries_and_output() -> None:
    """b_K adds q b_K to all scores of a query, which does not change the softmax; b_V adds b_V W_O to the output."""
    x, draw = np.float64(_draw(B, T, D)), np.random.default_rng(3)
    matrices = [draw.standard_normal(shape) for shape in ((D, H * K), (D, H * K), (D, H * V), (H * V, D))]
    b_q, b_k, b_v, b_o = (draw.standard_normal(matrix.shape[1]) for matrix in matrices)
    heads = [
        reference.attention(*(x @ np.split(w, H, 1)[i] + np.split(b, H)[i] for w, b in parts))
        for parts in [list(zip(matrices[:3], (b_q, b_k, b_v), strict=True))]
        for i in range(H)
    ]
    wanted = np.concatenate(heads, -1) @ matrices[3] + b_o
    got = reference.multi_head(x, x, *matrices, H, biases=(b_q, b_o + b_v @ matrices[3]))
    reference.assert_close(got, wanted, 1e-12)


def test_attention_dropout_needs_a_seed() -> None:
    layer = MultiHeadAttention(H, K, V, dropout=0.5)
    x = _draw(B, T, D)
    without, with_seed = layer(x, x), layer(x, x, seed=np.array([1, 2, 0], "int32"))
    assert np.abs(np.asarray(without) - np.asarray(with_seed)).max() > 1e-2
    np.testing.assert_array_equal(layer(x, x, seed=np.array([1, 2, 0], "int32")), with_seed)


@pytest.mark.parametrize("score", ["dot", "additive"])
def test_other_scores_equal_their_equations(score: str) -> None:
    layer = MultiHeadAttention(H, K, V, score=score)
    layer.build((None, None, D), (None, None, D))
    reference.randomise(layer, 2)
    x, memory = _draw(B, T, D), _draw(B, S, D)
    allowed = np.random.default_rng(1).random((B, T, S)) < 0.5
    allowed[:, :, 0] = True
    weights = {w.name: np.asarray(w, np.float64) for w in layer.weights}
    assert set(weights) == {"query", "key", "value", "output"} | ({"score_vector"} if score == "additive" else set())
    heads = []
    for i in range(H):
        q, k, v = (np.split(weights[name], H, 1)[i] for name in ("query", "key", "value"))
        arrays = np.float64(x) @ q, np.float64(memory) @ k, np.float64(memory) @ v
        if score == "dot":
            heads.append(reference.attention(*arrays, allowed, score))
        else:
            heads.append(reference.additive_attention(*arrays, weights["score_vector"][i], allowed))
    wanted = np.concatenate(heads, -1) @ weights["output"]
    bias = np.where(allowed, 0, ILLEGAL).astype("float32")[:, None]
    reference.assert_close(layer(x, memory, bias=bias), wanted, 1e-5)
    with record([layer]) as seen:
        reference.assert_close(layer(x, memory, bias=bias), wanted, 1e-5)
    np.testing.assert_allclose(np.asarray(seen[0]).sum(-1), 1, atol=1e-6)


@pytest.mark.commit
def test_the_variance_of_a_dot_product_is_d_k() -> None:
    """Footnote 4: components that are independent, with mean 0 and variance 1, have a dot product of variance d_k."""
    for d_k in (4, 64):
        query, key = np.random.default_rng(d_k).standard_normal((2, 200_000, d_k))
        products = (query * key).sum(-1)
        np.testing.assert_allclose([products.mean() / d_k**0.5, products.var() / d_k], [0, 1], atol=0.02)


def test_scaling_undoes_what_a_large_d_k_does_to_the_softmax() -> None:
    """Section 3.2.1: unscaled products of many components push the softmax to where its gradients are small."""
    x = _draw(1, 64, 64)
    largest: dict[str, float] = {}
    for score in ("scaled", "dot"):
        layer = MultiHeadAttention(1, 64, 64, score=score)
        layer.build((None, None, 64))
        for matrix in (layer.query, layer.key):
            matrix.assign(np.eye(64, dtype="float32"))  # queries and keys of unit variance
        key = np.random.default_rng(3).standard_normal((1, 64, 64)).astype("float32")
        with record([layer]) as shares:
            layer(x, key)
        largest[score] = float(np.asarray(shares[0]).max(-1).mean())
    assert largest["scaled"] < 0.2 < 0.8 < largest["dot"]
