"""Multi-head attention (section 3.2.2).

Legend: B batch, T queries, S keys, H heads (num_heads), K = d_k, V = d_v, D = d_model.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar

import keras
from keras import ops

from t2t_lite.layers.dropout import Dropout
from t2t_lite.layers.local_attention import Window, local_attention
from t2t_lite.layers.matmul import batch_shape, matmul, step_dot, step_dots
from t2t_lite.layers.matrix import Function, Matrix
from t2t_lite.layers.scaled_dot_product import scaled_dot_product
from t2t_lite.layers.step_attention import Product, step_attention

Update = Callable[[Any, Any], tuple[Any, Any]]


class MultiHeadAttention(keras.layers.Layer):
    """MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O, without bias terms (section 3.2.2).

    head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V).

    Args:
        num_heads: h.
        d_k: size of one head's queries and keys.
        d_v: size of one head's values.
        dropout: share of attention weights that training drops; the paper drops none.
        gain: of the initial W^Q, W^K and W^V, times which Glorot and Bengio's are drawn; the paper does not say.

    Call arguments:
        x: [B, T, D], the queries' side.
        memory: [B, S, D], the keys' and values' side; None: x itself, for self-attention.
        bias: float32, broadcastable to [B, H, T, S], added to the scores; or a `Window`, for restricted self-attention.
        seed: int32 [2], or None for inference.

    Returns:
        [B, T, D].
    """

    MATRICES: ClassVar = {"query": "IO", "key": "IO", "value": "IO", "output_kernel": "IO"}

    def __init__(
        self, num_heads: int, d_k: int, d_v: int, dropout: float = 0.0, gain: float = 1.0, **kwargs: Any
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.num_heads, self.d_k, self.d_v, self.gain = num_heads, d_k, d_v, gain
        self.dropout = Dropout(dropout, name="dropout")
        self.watch: Function | None = None  # told the weights [B, H, T, S] of each call; for pictures

    def build(self, x_shape: tuple[int | None, ...], memory_shape: tuple[int | None, ...] | None = None) -> None:
        d_model, d_memory = x_shape[-1], (memory_shape or x_shape)[-1]

        def kernel(name: str, shape: tuple[int | None, int | None], gain: float = 1.0) -> Any:
            initializer = keras.initializers.VarianceScaling(gain**2, "fan_avg", "uniform")
            return self.add_weight(name=name, shape=shape, initializer=initializer)

        self.query = kernel("query", (d_model, self.num_heads * self.d_k), self.gain)
        self.key = kernel("key", (d_memory, self.num_heads * self.d_k), self.gain)
        self.value = kernel("value", (d_memory, self.num_heads * self.d_v), self.gain)
        self.output_kernel = kernel("output", (self.num_heads * self.d_v, d_model))

    def call(self, x: Any, memory: Any = None, bias: Any = None, seed: Any = None) -> Any:
        if memory is None and not isinstance(self.query, Matrix):
            product = self._heads(x, self._self_kernel(x.dtype))
            query, key, value = ops.split(product, (self.d_k, 2 * self.d_k), axis=-1)
            heads = self._attend(query, key, value, bias, seed)
        else:
            keys_values = self.project_memory(x if memory is None else memory)
            heads = self._attend(self._heads(x, self.query), *keys_values, bias, seed)
        return matmul(heads, self.output_kernel)

    def project_memory(self, memory: Any) -> tuple[Any, Any]:
        """Keys [B, H, S, K] and values [B, H, S, V] of `memory` [B, S, D]; decoding computes them once."""
        return self._heads(memory, self.key), self._heads(memory, self.value)

    def memory_step(self, dtype: str, product: Product | None = None) -> Callable[[Any, Any, Any, Any], Any]:
        """Returns attention to a memory for the steps of a search; `product` as for `step_attention`.

        A function of `x` [B, T, D] in `dtype`, keys [B, H, S, K], values [B, H, S, V] and `bias` to [B, T, D].
        """
        project, output = step_dot(self.query, dtype), step_dot(self.output_kernel, dtype)
        return lambda x, key, value, bias: output(step_attention(self._split(project(x)), key, value, bias, product))

    def self_step(self, dtype: str, product: Product | None = None) -> Callable[[Any, Update, Any], Any]:
        """Returns self-attention for the steps of a search; `product` as for `step_attention`.

        A function of `x` [B, T, D] in `dtype`; of `update`, which is told the keys [B, T, H, K] and values [B, T, H, V]
        of x and returns those that are to be seen, [B, H, S, K] and [B, H, S, V]; and of `bias`; to [B, T, D].
        """
        project = step_dots((self.query, self.key, self.value), dtype)
        output = step_dot(self.output_kernel, dtype)

        def step(x: Any, update: Update, bias: Any) -> Any:
            query, key, value = (self._split(part) for part in project(x))
            keys, values = update(key, value)
            return output(step_attention(query, keys, values, bias, product))

        return step

    def _self_kernel(self, dtype: str) -> Any:
        """[D, H * (2K + V)]: W^Q, W^K and W^V side by side, head by head: one product is faster than three."""
        kernels = [
            ops.reshape(ops.cast(kernel, dtype), (kernel.shape[0], self.num_heads, kernel.shape[1] // self.num_heads))
            for kernel in (self.query, self.key, self.value)
        ]
        return self._flat(ops.concatenate(kernels, axis=-1))

    def _attend(self, query_BHTK: Any, key_BHSK: Any, value_BHSV: Any, bias: Any = None, seed: Any = None) -> Any:
        """The heads, side by side -> [B, T, H * V]."""

        def drop(weights: Any, axis: int = 0) -> Any:
            return self.dropout(weights, seed=seed, axis=axis)

        if isinstance(bias, Window) and not self.watch:
            within = functools.partial(drop, axis=1)
            heads_BHTV = local_attention(query_BHTK, key_BHSK, value_BHSV, bias, within)
        else:
            full_bias = bias.full_bias() if isinstance(bias, Window) else bias
            heads_BHTV = scaled_dot_product(query_BHTK, key_BHSK, value_BHSV, full_bias, drop, self.watch)
        return self._flat(ops.transpose(heads_BHTV, (0, 2, 1, 3)))

    def _heads(self, x: Any, kernel: Any) -> Any:
        """[B, T, D], [D, H * E] -> [B, H, T, E]."""
        return ops.transpose(matmul(x, kernel, self.num_heads), (0, 2, 1, 3))

    def _split(self, x: Any) -> Any:
        """[..., H * E] -> [..., H, E]."""
        return ops.reshape(x, (*batch_shape(x), self.num_heads, x.shape[-1] // self.num_heads))

    def _flat(self, x: Any) -> Any:
        """[..., H, E] -> [..., H * E]."""
        return ops.reshape(x, (*batch_shape(x)[:-1], x.shape[-2] * x.shape[-1]))
