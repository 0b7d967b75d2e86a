"""Multi-head attention (section 3.2.2).

Legend: B batch, T queries, S keys, H heads (num_heads), K = d_k, V = d_v, D = d_model.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from t2t_lite.layers.dropout import Dropout
from t2t_lite.layers.local_attention import Window, local_attention
from t2t_lite.layers.scaled_dot_product import Function, scaled_dot_product


def dot(x: Any, kernel: Any) -> Any:
    """Matrix product over the last axis in x's dtype. [..., I], [I, O] -> [..., O]."""
    kernel = ops.cast(kernel, x.dtype)
    rows = ops.reshape(x, (-1, x.shape[-1]))  # one plain product is faster than a batched one
    return ops.reshape(ops.matmul(rows, kernel), (*ops.shape(x)[:-1], kernel.shape[-1]))


class MultiHeadAttention(keras.layers.Layer):
    """MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O, without bias terms (section 3.2.2).

    head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V).

    Args:
        num_heads: h.
        d_k: size of one head's queries and keys.
        d_v: size of one head's values.
        dropout: share of attention weights that training drops; the paper drops none.

    Call arguments:
        x: [B, T, D], the queries' side.
        memory: [B, S, D], the keys' and values' side; x itself for self-attention.
        bias: float32, broadcastable to [B, H, T, S], added to the scores; or a `Window`, for restricted self-attention.
        seed: int32 [2], or None for inference.

    Returns:
        [B, T, D].
    """

    def __init__(self, num_heads: int, d_k: int, d_v: int, dropout: float = 0.0, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.num_heads, self.d_k, self.d_v = num_heads, d_k, d_v
        self.dropout = Dropout(dropout, name="dropout")
        self.watch: Function | None = None  # told the weights [B, H, T, S] of each call; for pictures

    def build(self, x_shape: tuple[int | None, ...], memory_shape: tuple[int | None, ...]) -> None:
        d_model = x_shape[-1]

        def kernel(name: str, shape: tuple[int | None, int | None]) -> Any:
            return self.add_weight(name=name, shape=shape, initializer="glorot_uniform")

        self.query = kernel("query", (d_model, self.num_heads * self.d_k))
        self.key = kernel("key", (memory_shape[-1], self.num_heads * self.d_k))
        self.value = kernel("value", (memory_shape[-1], self.num_heads * self.d_v))
        self.output_kernel = kernel("output", (self.num_heads * self.d_v, d_model))

    def call(self, x: Any, memory: Any, bias: Any = None, seed: Any = None) -> Any:
        key_BHSK, value_BHSV = self.project_memory(memory)
        return self.attend(x, key_BHSK, value_BHSV, bias, seed)

    def project_memory(self, memory: Any) -> tuple[Any, Any]:
        """Keys [B, H, S, K] and values [B, H, S, V] of `memory` [B, S, D]; decoding computes them once."""
        return self._split(dot(memory, self.key)), self._split(dot(memory, self.value))

    def attend(self, x: Any, key_BHSK: Any, value_BHSV: Any, bias: Any = None, seed: Any = None) -> Any:
        """Attention of `x` [B, T, D] over given keys and values -> [B, T, D]."""

        def drop(weights: Any) -> Any:
            return self.dropout(weights, seed)

        query_BHTK = self._split(dot(x, self.query))
        if isinstance(bias, Window) and not self.watch:
            heads_BHTV = local_attention(query_BHTK, key_BHSK, value_BHSV, bias, drop)
        else:
            full_bias = bias.full_bias() if isinstance(bias, Window) else bias
            heads_BHTV = scaled_dot_product(query_BHTK, key_BHSK, value_BHSV, full_bias, drop, self.watch)
        heads_BTHV = ops.transpose(heads_BHTV, (0, 2, 1, 3))
        shape = ops.shape(heads_BTHV)
        return dot(ops.reshape(heads_BTHV, (shape[0], shape[1], self.num_heads * self.d_v)), self.output_kernel)

    def _split(self, x: Any) -> Any:
        """[B, T, H * K] -> [B, H, T, K]."""
        shape = ops.shape(x)
        split = ops.reshape(x, (shape[0], shape[1], self.num_heads, x.shape[-1] // self.num_heads))
        return ops.transpose(split, (0, 2, 1, 3))
