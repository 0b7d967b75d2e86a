"""Scaled dot-product attention for the steps of a search, in which there are few queries.

Legend: B batch, T queries, S keys, H heads, K = d_k, V = d_v.
"""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from t2t_lite.layers.scaled_dot_product import scaled_dot_product
from t2t_lite.ops.batched_matmul import batched_matmul, is_faster


def step_attention(query: Any, key: Any, value: Any, bias: Any = None) -> Any:
    """Attention(Q, K, V), equation (1), equal to `scaled_dot_product` with the heads' axis elsewhere.

    Args:
        query: [B, T, H, K], T known.
        key: [B, H, S, K].
        value: [B, H, S, V].
        bias: float32, broadcastable to [B, 1, T, S], added to the scores.

    Returns:
        [B, T, H * V].
    """
    if is_faster(query.dtype, query.shape[1]):
        heads = _one_by_one(query, key, value, bias)
    else:
        heads = swap_axes(scaled_dot_product(swap_axes(query), key, value, bias))
    return tf.reshape(heads, [-1, query.shape[1], query.shape[2] * value.shape[3]])


def swap_axes(x: Any) -> Any:
    """[B, T, H, E] -> [B, H, T, E], or back.

    It transposes integers, because TensorFlow passes floats to oneDNN, which is slower if there is little to transpose.
    Gain (benchmarks/notebook.md): with bfloat16 D3 takes 0.92 of the time and D1 0.97.
    """
    return tf.bitcast(tf.transpose(tf.bitcast(x, tf.int32 if x.dtype.size == 4 else tf.int16), [0, 2, 1, 3]), x.dtype)


def _one_by_one(query_BTHK: Any, key: Any, value: Any, bias: Any) -> Any:
    """-> [B, T, H, 1, V]."""
    query = tf.expand_dims(query_BTHK, 3) * tf.cast(1 / math.sqrt(query_BTHK.shape[-1]), query_BTHK.dtype)
    scores = batched_matmul(query, tf.expand_dims(key, 1), transpose=True)
    if bias is not None:
        scores = scores + tf.expand_dims(tf.expand_dims(tf.squeeze(bias, 1), 2), 3)
    # For so few numbers, an engine's softmax takes longer than its parts.
    powers = tf.exp(scores - tf.reduce_max(scores, axis=-1, keepdims=True))
    weights = powers / tf.reduce_sum(powers, axis=-1, keepdims=True)
    return batched_matmul(weights, tf.expand_dims(value, 1))
