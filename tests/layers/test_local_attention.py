"""Restricted self-attention in blocks equals equation (1) with a mask, and never makes an [n, n] matrix."""

import math
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.layers.attention import MultiHeadAttention
from t2t_lite.layers.dropout import Dropout
from t2t_lite.layers.local_attention import Window, local_attention
from t2t_lite.layers.recording import record
from t2t_lite.layers.scaled_dot_product import scaled_dot_product
from tests import reference

B, H, K, V, D = 2, 3, 5, 4, 12
# n, r: one block, not a multiple of a block, a multiple, r > n, odd r, neighbours, only itself, blocks longer than 16.
SIZES = [(7, 4), (37, 6), (32, 32), (48, 4), (5, 64), (41, 7), (33, 2), (33, 1), (100, 42), (80, 40), (1, 8)]


def _draw(*shape: int, seed: int = 7) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def _inputs(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return _draw(B, H, n, K, seed=1), _draw(B, H, n, K, seed=2), _draw(B, H, n, V, seed=3)


def _segments(kind: str, n: int) -> np.ndarray:
    """int32 [B, n], the second row shorter than the first."""
    segments = np.ones((B, n), "int32")
    if kind == "packed":
        segments = np.cumsum(np.random.default_rng(n).random((B, n)) < 0.15, axis=1).astype("int32") + 1
    if kind != "full":
        segments[1, n - n // 3 :] = 0
    return segments


def _allowed(segments: np.ndarray, r: int, causal: bool) -> np.ndarray:
    """bool [B, n, n], one pair of positions at a time."""
    allowed = np.zeros((*segments.shape, segments.shape[1]), bool)
    for b, i, j in np.ndindex(*allowed.shape):
        near = abs(i - j) <= r // 2 and (j <= i or not causal)
        allowed[b, i, j] = near and segments[b, i] == segments[b, j] != 0
    return allowed


@pytest.mark.parametrize("causal", [False, True], ids=["both", "causal"])
@pytest.mark.parametrize(("n", "r"), SIZES)
def test_equals_masked_full_attention(n: int, r: int, causal: bool) -> None:
    q, k, v = _inputs(n)
    for kind in ("full", "padded", "packed"):
        segments = _segments(kind, n)
        allowed = _allowed(segments, r, causal)
        seen = allowed.any(-1)[:, None, :, None]  # a padding query sees nothing, and its output is not used
        np.testing.assert_array_equal(seen[:, 0, :, 0], segments > 0)
        window = Window(r, causal, segments)
        np.testing.assert_array_equal(np.asarray(window.full_bias())[:, 0] == 0, allowed)
        got = np.asarray(local_attention(q, k, v, window))
        assert np.isfinite(got).all()
        wanted = reference.attention(*map(np.float64, (q, k, v)), (allowed | ~seen[:, 0])[:, None])
        reference.assert_close(got * seen, wanted * seen, 1e-5)


@pytest.mark.parametrize("causal", [False, True], ids=["both", "causal"])
@pytest.mark.parametrize(("n", "r"), [(37, 6), (5, 64), (100, 42)])
def test_gradients_equal_those_of_masked_full_attention(n: int, r: int, causal: bool) -> None:
    segments = _segments("packed", n)
    window, upstream = Window(r, causal, segments), _draw(B, H, n, V) * (segments > 0)[:, None, :, None]

    def gradients(attend: Any) -> list[np.ndarray]:
        inputs = [tf.constant(x) for x in _inputs(n)]
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            loss = tf.reduce_sum(attend(*inputs) * upstream)
        return [g.numpy() for g in tape.gradient(loss, inputs)]

    local = gradients(lambda q, k, v: local_attention(q, k, v, window))
    full = gradients(lambda q, k, v: scaled_dot_product(q, k, v, window.full_bias()))
    for got, wanted in zip(local, full, strict=True):
        reference.assert_close(got, wanted, 1e-5)


@pytest.mark.commit
@pytest.mark.parametrize("jit", [False, True], ids=["graph", "xla"])
def test_a_graph_of_open_shapes_serves_all_lengths(jit: bool) -> None:
    rows = [tf.TensorSpec([None, H, None, size]) for size in (K, K, V)]

    def attend(q: Any, k: Any, v: Any, segments: Any) -> tuple[Any, ...]:
        inputs = [tf.convert_to_tensor(x) for x in (q, k, v)]
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            heads = local_attention(*inputs, Window(36, False, segments))
            loss = tf.reduce_sum(heads**2)
        return heads, *tape.gradient(loss, inputs)

    signature = [*rows, tf.TensorSpec([None, None], tf.int32)]
    graph = tf.function(attend, input_signature=signature, jit_compile=jit, autograph=False)
    for n in (0, 5, 18, 53) if not jit else (5, 53):
        q, k, v = _inputs(n)
        segments = _segments("padded", n)
        for got, wanted in zip(graph(q, k, v, segments), attend(q, k, v, segments), strict=True):
            reference.assert_close(got, np.float64(wanted), 1e-5)


def _sizes_of_tensors(n: int, r: int) -> list[int]:
    """Elements of each tensor that a graph of n positions makes, forward and backward."""
    rows = [tf.TensorSpec([1, H, n, K])] * 3

    def gradients(q: Any, k: Any, v: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([q, k, v])
            heads = local_attention(q, k, v, Window(r, False, tf.ones([1, n], tf.int32)))
        return tape.gradient(heads, [q, k, v])

    graph = tf.function(gradients, input_signature=rows, autograph=False).get_concrete_function().graph
    outputs = [output for operation in graph.get_operations() for output in operation.outputs]
    return [math.prod(output.shape) for output in outputs if output.shape.rank is not None]


def test_memory_grows_with_n_times_r() -> None:
    n, r = 2048, 64
    sizes = _sizes_of_tensors(n, r)
    assert H * n * r <= max(sizes) <= 2 * H * n * r
    twice_n, twice_r = _sizes_of_tensors(2 * n, r), _sizes_of_tensors(n, 2 * r)
    assert max(twice_n) == max(twice_r) == 2 * max(sizes)
    assert sum(twice_n) < 2.02 * sum(sizes)
    assert sum(twice_r) < 2.02 * sum(sizes)


def test_dropout_is_on_the_weights() -> None:
    n, r = 70, 20
    q, k, _ = _inputs(n)
    ones = np.ones((B, H, n, V), "float32")  # a head is then the sum of the weights that dropout keeps
    window = Window(r, True, _segments("full", n))

    def drop(seed: int) -> Any:
        return local_attention(q, k, ones, window, lambda w: Dropout(0.3)(w, seed=np.array([1, seed, 0], "int32")))

    np.testing.assert_array_equal(drop(1), drop(1))
    heads = np.stack([np.asarray(drop(seed)) for seed in range(40)])
    assert heads[0].std() > 0.05
    assert abs(heads.mean() - 1) < 0.01  # its standard deviation is below 0.002
    np.testing.assert_allclose(local_attention(q, k, ones, window), 1, rtol=1e-6)


@pytest.mark.parametrize(("dtype", "relative"), [("float32", 1e-5), ("mixed_bfloat16", 2**-6)])
def test_multi_head_attention_with_a_window(dtype: str, relative: float) -> None:
    n, r = 45, 34
    layer = MultiHeadAttention(H, K, V, dtype=dtype)
    layer.build((None, None, D), (None, None, D))
    x, segments = _draw(B, n, D).astype(dtype.removeprefix("mixed_")), _segments("packed", n)
    matrices = [np.asarray(w, np.float64) for w in (layer.query, layer.key, layer.value, layer.output_kernel)]
    allowed, real = _allowed(segments, r, True), (segments > 0)[:, :, None]
    wanted = reference.multi_head(np.float64(x), np.float64(x), *matrices, heads=H, allowed=allowed | ~real) * real
    got = layer(x, x, bias=Window(r, True, segments))
    assert got.dtype == x.dtype
    reference.assert_close(np.float32(got) * real, wanted, relative)
    # Attention maps show the weights of all pairs of positions, so the whole matrix is recorded.
    with record([layer]) as seen:
        recorded = layer(x, x, bias=Window(r, True, segments))
    reference.assert_close(np.float32(recorded) * real, wanted, relative)
    (weights,) = seen
    assert weights.shape == (B, H, n, n)
    assert (np.float32(weights)[~np.broadcast_to((allowed | ~real)[:, None], weights.shape)] == 0).all()
