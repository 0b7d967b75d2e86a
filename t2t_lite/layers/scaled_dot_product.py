"""Scaled dot-product attention (section 3.2.1).

Legend: T queries, S keys, K = d_k, V = d_v; "..." are batch axes, such as batch, heads and blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from keras import ops

from t2t_lite.layers.relative_positions import Relative, matmul_by_query

TensorFn = Callable[[Any], Any]


def scaled_dot_product(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    drop: TensorFn | None = None,
    watch: TensorFn | None = None,
    relative: Relative | None = None,
) -> Any:
    """Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V, equation (1), its softmax in float32 at any precision.

    Args:
        query: [..., T, K].
        key: [..., S, K].
        value: [..., S, V].
        bias: float32, broadcastable to [..., T, S], added to the scores.
        drop: applied to the weights [..., T, S] before they are used; dropout.
        watch: receives the float32 weights; for pictures.
        relative: added to keys and values, query by query; the other arguments then have the axes [B, H, ...].

    Returns:
        [..., T, V].
    """
    query = query * ops.cast(1 / math.sqrt(query.shape[-1]), query.dtype)
    scores = ops.cast(ops.matmul(query, ops.swapaxes(key, -1, -2)), "float32")
    if relative is not None:
        scores = scores + ops.cast(matmul_by_query(query, ops.swapaxes(relative.keys, -1, -2)), "float32")
    weights = attention_weights(scores, query.dtype, bias, drop, watch)
    heads = ops.matmul(weights, value)
    return heads if relative is None else heads + matmul_by_query(weights, relative.values)


def attention_weights(scores: Any, dtype: Any, bias: Any, drop: TensorFn | None, watch: TensorFn | None) -> Any:
    """softmax(scores + bias) over keys, in `dtype`; scores float32 [..., T, S], the rest as `scaled_dot_product`."""
    if bias is not None:
        scores = scores + bias
    weights = ops.softmax(scores, axis=-1)
    if watch:
        watch(weights)
    weights = ops.cast(weights, dtype)
    return drop(weights) if drop else weights
