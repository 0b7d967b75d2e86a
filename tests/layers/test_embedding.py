"""Embeddings and the tied softmax against section 3.4."""

import numpy as np
import pytest

from t2t_lite.layers.embedding import Embedding
from tests import reference

V, D = 50, 16
IDS = np.array([[3, 49, 1, 0], [1, 0, 0, 0]], "int32")


def _layer(vocab_size: int = V, output_dtype: str = "float32") -> Embedding:
    layer = Embedding(vocab_size, D, output_dtype)
    layer.build((None, None))
    return layer


def test_rows_are_scaled_by_the_root_of_d_model_and_padding_is_zero() -> None:
    layer = _layer()
    got = layer(IDS)
    reference.assert_close(got, reference.embed(IDS, np.asarray(layer.table, np.float64)), 1e-5)
    assert not np.asarray(got)[IDS == 0].any()
    assert np.asarray(layer.table)[0].any()  # zero is what the layer makes of it, not a row that training would move


def test_logits_are_products_with_the_same_matrix() -> None:
    layer = _layer()
    assert len(layer.weights) == 1
    x = np.random.default_rng(2).standard_normal((2, 3, D)).astype("float32")
    reference.assert_close(layer.logits(x), np.float64(x) @ np.asarray(layer.table, np.float64).T, 1e-5)


@pytest.mark.parametrize("vocab_size", [V, 256])  # one of them is laid out with columns more
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_logits_of_steps_are_the_same(vocab_size: int, dtype: str) -> None:
    layer = _layer(vocab_size)
    x = np.random.default_rng(2).standard_normal((2, 3, D)).astype(dtype)
    logits = layer.step_logits(dtype)(x)
    assert logits.dtype == "float32"
    wanted = np.float64(x) @ np.asarray(layer.table, np.float64).T
    reference.assert_close(logits, wanted, 1e-5 if dtype == "float32" else 2**-6)


def test_bfloat16_is_within_its_rounding_and_gives_float32_logits() -> None:
    layer = _layer(output_dtype="bfloat16")
    assert layer.table.dtype == "float32"
    got, table = layer(IDS), np.asarray(layer.table, np.float64)
    assert got.dtype == "bfloat16"
    reference.assert_close(np.float32(got), reference.embed(IDS, table), 2**-7)  # the table and the product round
    x = np.random.default_rng(2).standard_normal((2, 3, D)).astype("bfloat16")
    logits = layer.logits(x)
    assert logits.dtype == "float32"
    reference.assert_close(logits, np.float64(x) @ table.T, 2**-6)


def test_vectors_and_logits_start_at_unit_variance() -> None:
    layer = Embedding(4000, 64)
    vectors = np.asarray(layer(np.arange(1, 4000, dtype="int32")))
    assert abs(vectors.std() - 1) < 0.01
    x = np.random.default_rng(5).standard_normal((50, 64)).astype("float32")
    assert abs(np.asarray(layer.logits(x)).std() - 1) < 0.05
