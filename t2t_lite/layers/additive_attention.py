"""Additive attention (Bahdanau et al., 2015), which section 3.2.1 compares with dot products.

Legend: B batch, H heads, T queries, S keys, K = d_k, V = d_v.
"""

from __future__ import annotations

from typing import Any

from keras import ops

from t2t_lite.layers.scaled_dot_product import TensorFn, attention_weights


def additive_attention(
    query: Any,
    key: Any,
    value: Any,
    vector: Any,
    bias: Any = None,
    drop: TensorFn | None = None,
    watch: TensorFn | None = None,
) -> Any:
    """softmax(v . tanh(q + k)) V for each query q and key k, the softmax in float32 at any precision.

    The compatibility function is a feed-forward network with one hidden layer: W^Q and W^K, which made q and k, are
    its first layer, and v its second. It needs memory for [B, H, T, S, K].

    Args:
        query: [B, H, T, K].
        key: [B, H, S, K].
        value: [B, H, S, V].
        vector: v of each head, [H, K].
        bias, drop, watch: as `scaled_dot_product`.

    Returns:
        [B, H, T, V].
    """
    hidden = ops.tanh(ops.expand_dims(query, 3) + ops.expand_dims(key, 2))
    columns = ops.cast(vector, query.dtype)[None, :, None, :, None]  # a matrix [K, 1] of each head
    scores = ops.cast(ops.squeeze(ops.matmul(hidden, columns), -1), "float32")
    return ops.matmul(attention_weights(scores, query.dtype, bias, drop, watch), value)
