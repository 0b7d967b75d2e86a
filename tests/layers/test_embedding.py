"""Embeddings against section 3.4."""

import numpy as np

from t2t_lite.layers.embedding import Embedding
from t2t_lite.layers.matmul import matmul
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
    assert np.asarray(layer.table)[0].any()  # the layer makes padding zero; training would move a row of zeros


def test_bfloat16_is_within_its_rounding() -> None:
    layer = _layer(output_dtype="bfloat16")
    assert layer.table.dtype == "float32"
    got, table = layer(IDS), np.asarray(layer.table, np.float64)
    assert got.dtype == "bfloat16"
    reference.assert_close(np.float32(got), reference.embed(IDS, table), 2**-7)  # both table and product are rounded


def test_vectors_and_logits_start_at_unit_variance() -> None:
    layer = Embedding(4000, 64)
    vectors = np.asarray(layer(np.arange(1, 4000, dtype="int32")))
    assert abs(vectors.std() - 1) < 0.01
    x = np.random.default_rng(5).standard_normal((50, 64)).astype("float32")
    assert abs(np.asarray(matmul(x, layer.table, transposed=True)).std() - 1) < 0.05
