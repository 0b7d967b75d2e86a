"""Attention in the steps of a search against equation (1)."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.ops.step_attention import step_attention
from tests import reference

B, H, S, K, V = 3, 4, 7, 6, 5


@pytest.mark.commit
@pytest.mark.parametrize(("queries", "dtype"), [(1, "float32"), (8, "float32"), (9, "float32"), (4, "bfloat16")])
@pytest.mark.parametrize("rows", [0, 1])  # 0: one row of the bias for all queries; 1: one for each
@pytest.mark.parametrize("given", [False, True])
def test_equals_the_equation(queries: int, dtype: str, rows: int, given: bool) -> None:
    draw = np.random.default_rng(3)
    query, key, value = (
        draw.standard_normal(shape).astype(dtype) for shape in ((B, queries, H, K), (B, H, S, K), (B, H, S, V))
    )
    allowed = draw.random((B, 1, queries if rows else 1, S)) < 0.6
    allowed[..., 0] = True
    bias = np.where(allowed, 0, -1e9).astype("float32") if given else None
    got = step_attention(tf.constant(query), tf.constant(key), tf.constant(value), bias)
    assert got.dtype == dtype
    swapped = np.float64(query).swapaxes(1, 2)
    wanted = reference.attention(swapped, np.float64(key), np.float64(value), allowed if given else None)
    wanted = wanted.swapaxes(1, 2).reshape(B, queries, H * V)
    reference.assert_close(np.float32(got), wanted, 1e-6 if dtype == "float32" else 2**-6)
