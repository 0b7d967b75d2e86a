"""Products with weights that are plain arrays; tests/ops checks products with prepared weights."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.layers.matmul import matmul, matmul_many
from tests import reference


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_product_with_and_without_a_bias_of_either_layout(dtype: str) -> None:
    draw = np.random.default_rng(5)
    x, weights = draw.standard_normal((2, 3, 16)).astype(dtype), draw.standard_normal((16, 7)).astype("float32")
    bias = draw.standard_normal(7).astype("float32")
    wanted = np.float64(x) @ np.float64(weights)
    for got, more in (
        (matmul(x, weights), 0.0),
        (matmul(x, weights.T, transposed=True), 0.0),
        (matmul(x, weights, bias), bias),
    ):
        assert got.dtype == dtype
        assert tuple(got.shape) == (2, 3, 7)
        reference.assert_close(np.float32(got), wanted + more, 1e-6 if dtype == "float32" else 2**-6)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_several_products_at_once_are_each_ones_heads(dtype: str) -> None:
    draw = np.random.default_rng(6)
    x = draw.standard_normal((2, 3, 16)).astype(dtype)
    several = [draw.standard_normal((16, columns)).astype("float32") for columns in (8, 8, 20)]
    for weights, got in zip(several, matmul_many(x, several, 4), strict=True):
        assert tuple(got.shape) == (2, 3, 4, weights.shape[1] // 4)
        wanted = np.reshape(np.float64(x) @ np.float64(weights), got.shape)
        reference.assert_close(np.float32(got), wanted, 1e-6 if dtype == "float32" else 2**-7)


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("columns", [7, 40])
def test_the_product_of_training_and_its_gradients(columns: int, dtype: str, jit: bool) -> None:
    draw = np.random.default_rng(8)
    x = draw.standard_normal((2, 3, 16)).astype(dtype)
    kernel = draw.standard_normal((16, columns)).astype("float32")
    upstream = draw.standard_normal((2, 3, columns)).astype(dtype)

    @tf.function(input_signature=[tf.TensorSpec([None, None, 16], dtype)], jit_compile=jit, autograph=False)
    def trained(x: Any) -> tuple[Any, Any]:
        weights = tf.constant(kernel)
        with tf.GradientTape() as tape:
            tape.watch((x, weights))
            product = matmul(x, weights)
        return product, tape.gradient(product, (x, weights), tf.constant(upstream))

    product, (of_x, of_kernel) = trained(x)
    wide = [np.float64(array) for array in (x, kernel, upstream)]
    relative = 1e-6 if dtype == "float32" else 2**-7
    reference.assert_close(np.float32(product), wide[0] @ wide[1], relative)
    reference.assert_close(np.float32(of_x), wide[2] @ wide[1].T, relative)
    reference.assert_close(np.float32(of_kernel), np.einsum("btd,bte->de", wide[0], wide[2]), relative)
    assert [value.dtype for value in (product, of_x, of_kernel)] == [dtype, dtype, "float32"]


@pytest.mark.parametrize("open_sizes", [(), (0,), (1,), (0, 1)])
@pytest.mark.parametrize("rows", [2, 0])
def test_whatever_sizes_a_graph_leaves_open(open_sizes: tuple[int, ...], rows: int) -> None:
    draw = np.random.default_rng(7)
    x, kernel = draw.standard_normal((rows, 3, 16)).astype("float32"), draw.standard_normal((16, 8)).astype("float32")
    spec = tf.TensorSpec([None if i in open_sizes else size for i, size in enumerate(x.shape)], tf.float32)

    @tf.function(input_signature=[spec], autograph=False)
    def both(x: Any) -> tuple[Any, Any]:
        return matmul(x, kernel), matmul(x, kernel, heads=2)

    whole, heads = both(x)
    reference.assert_close(whole, np.float64(x) @ np.float64(kernel), 1e-6)
    np.testing.assert_array_equal(heads, np.reshape(whole, (rows, 3, 2, 4)))
