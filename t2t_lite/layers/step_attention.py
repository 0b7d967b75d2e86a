"""Scaled dot-product attention for the steps of a search, in which there are few queries.

Legend: B batch, T queries, S keys, H heads (num_heads), K = d_k, V = d_v.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from keras import ops

from t2t_lite.layers.matmul import is_bfloat16
from t2t_lite.layers.scaled_dot_product import scaled_dot_product

Product = Callable[[Any, Any, bool], Any]


def step_attention(query: Any, key: Any, value: Any, bias: Any = None, product: Product | None = None) -> Any:
    """Attention(Q, K, V), equation (1), equal to `scaled_dot_product` with the heads' axis elsewhere.

    Args:
        query: [B, T, H, K].
        key: [B, H, S, K].
        value: [B, H, S, V].
        bias: float32, broadcastable to [B, 1, T, S], added to the scores.
        product: of a vector [..., 1, I] and a matrix [..., I, O], or [..., O, I] if the third argument is True; leading
            axes are broadcast. With it queries are taken one by one, and nothing is transposed. None: all at once.

    Returns:
        [B, T, H * V].
    """
    if product:
        heads = _one_by_one(query, key, value, bias, product)
    else:
        heads = _swapped(scaled_dot_product(_swapped(query), key, value, bias))
    return ops.reshape(heads, (-1, query.shape[1], query.shape[2] * value.shape[3]))


def _swapped(x: Any) -> Any:
    """[B, T, H, E] -> [B, H, T, E], or back.

    As integers: oneDNN, which TensorFlow gives floating numbers to, is slower where there is little to transpose.
    """
    return ops.view(ops.swapaxes(ops.view(x, "int16" if is_bfloat16(x.dtype) else "int32"), 1, 2), x.dtype)


def _one_by_one(query_BTHK: Any, key: Any, value: Any, bias: Any, product: Product) -> Any:
    """-> [B, T, H, 1, V]."""
    query = ops.expand_dims(query_BTHK, 3) * ops.cast(1 / math.sqrt(query_BTHK.shape[-1]), query_BTHK.dtype)
    scores = ops.cast(product(query, ops.expand_dims(key, 1), True), "float32")
    if bias is not None:
        scores = scores + ops.expand_dims(ops.squeeze(bias, 1), (2, 3))
    # Where numbers are this few, an engine's softmax takes longer than its parts.
    powers = ops.exp(scores - ops.max(scores, axis=-1, keepdims=True))
    weights = ops.cast(powers / ops.sum(powers, axis=-1, keepdims=True), query.dtype)
    return product(weights, ops.expand_dims(value, 1), False)
