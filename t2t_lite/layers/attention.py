"""Multi-head attention (section 3.2.2).

Legend: B batch, T queries, S keys, H heads (num_heads), K = d_k, V = d_v, D = d_model.
"""

from __future__ import annotations

import functools
import math
from typing import Any, ClassVar

import keras
from keras import ops

from t2t_lite.layers.additive_attention import additive_attention
from t2t_lite.layers.dropout import Dropout
from t2t_lite.layers.local_attention import Window, local_attention
from t2t_lite.layers.matmul import batch_shape, matmul, matmul_many
from t2t_lite.layers.recording import recorder
from t2t_lite.layers.relative_positions import Relative, vectors
from t2t_lite.layers.rotary import rotate
from t2t_lite.layers.scaled_dot_product import scaled_dot_product


@keras.saving.register_keras_serializable("t2t_lite")
class MultiHeadAttention(keras.layers.Layer):
    """MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O (section 3.2.2).

    head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V).

    Args:
        num_heads: h.
        d_k: size of one head's queries and keys.
        d_v: size of one head's values.
        dropout: share of attention weights that training drops; the paper drops none.
        gain: the initial W^Q, W^K and W^V are Glorot and Bengio's times this; the paper does not say.
        max_relative_position: R of `layers.relative_positions`, for self-attention; 0, as in the paper: none.
        biases: on the queries and on the output, as tensor2tensor had them in 2017; the paper's formulas have none.
            A bias on the keys would change no weight: it adds the same number to all scores of a query. A bias on the
            values would add a constant to the output, which the output's bias already covers.
        score: of a query and a key: "scaled" as in the paper, "dot" without 1 / sqrt(d_k), or "additive".
        rotary: whether self-attention has the positions of `layers.rotary`.
        beta: the initial W^V and W^O are multiplied by this; that of DeepNorm (Wang et al., 2022).

    Call arguments:
        x: [B, T, D], the queries' side.
        memory: [B, S, D], the keys' and values' side, or what `keys_values` returned; None: x, for self-attention.
        bias: float32, broadcastable to [B, H, T, S], added to the scores; or a `Window`, for restricted self-attention.
        cache: for a step of a search, which has few queries. `cache.update` takes the keys [B, T, H, K] and values
            [B, T, H, V] of x. It returns all keys [B, H, S, K] and values [B, H, S, V] that self-attention sees.
            `cache.attend` is `scaled_dot_product` of a query [B, T, H, K] with these and a bias; it returns
            [B, T, H * V]. `cache.position`, an int scalar, is that of all queries, and `cache.distances`, int [B, S],
            is how far each key is from it.
        seed: int32 [3], or None for inference.

    Returns:
        [B, T, D].
    """

    LOOKED_UP: ClassVar = ("relative_keys", "relative_values")
    MATRICES: ClassVar = {"query": "IO", "key": "IO", "value": "IO", "output_kernel": "IO"}

    def __init__(
        self,
        num_heads: int,
        d_k: int,
        d_v: int,
        dropout: float = 0.0,
        gain: float = 1.0,
        max_relative_position: int = 0,
        biases: bool = False,
        score: str = "scaled",
        rotary: bool = False,
        beta: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.num_heads, self.d_k, self.d_v, self.gain = num_heads, d_k, d_v, gain
        self.max_relative_position, self.biases, self.score = max_relative_position, biases, score
        self.rotary, self.beta = rotary, beta
        self.score_vector: Any = None
        self.query_bias: Any = None
        self.output_bias: Any = None
        self.relative_keys: Any = None
        self.relative_values: Any = None
        self.dropout = Dropout(dropout, name="dropout")

    def build(self, x_shape: tuple[int | None, ...], memory_shape: tuple[int | None, ...] | None = None) -> None:
        d_model, d_memory = x_shape[-1], (memory_shape or x_shape)[-1]

        def matrix(name: str, shape: tuple[int | None, int | None], gain: float = 1.0) -> Any:
            initializer = keras.initializers.VarianceScaling(gain**2, "fan_avg", "uniform")
            return self.add_weight(name=name, shape=shape, initializer=initializer)

        self.query = matrix("query", (d_model, self.num_heads * self.d_k), self.gain)
        self.key = matrix("key", (d_memory, self.num_heads * self.d_k), self.gain)
        self.value = matrix("value", (d_memory, self.num_heads * self.d_v), self.gain * self.beta)
        self.output_kernel = matrix("output", (self.num_heads * self.d_v, d_model), self.beta)
        if self.biases:
            self.query_bias = self.add_weight(
                name="query_bias", shape=(self.num_heads * self.d_k,), initializer="zeros"
            )
            self.output_bias = self.add_weight(name="output_bias", shape=(d_model,), initializer="zeros")
        if self.score == "additive":
            self.score_vector = matrix("score_vector", (self.num_heads, self.d_k))
        if self.max_relative_position:
            distances = 2 * self.max_relative_position + 1
            self.relative_keys = matrix("relative_keys", (distances, self.d_k))
            self.relative_values = matrix("relative_values", (distances, self.d_v))

    def call(self, x: Any, memory: Any = None, bias: Any = None, cache: Any = None, seed: Any = None) -> Any:
        if memory is None:
            query, key, value = matmul_many(x, (self.query, self.key, self.value), self.num_heads)
            query = self._add_bias(query)
            if self.rotary:
                positions = cache.position if cache else ops.arange(ops.shape(x)[1])
                query, key = rotate(query, positions), rotate(key, positions)
            key, value = cache.update(key, value) if cache else (_swap(key), _swap(value))
            if cache and self.max_relative_position:
                far = self._relative(cache.distances, key.dtype)  # [B, S, E]: the same for all queries
                key, value = key + far.keys[:, None], value + far.values[:, None]
        else:
            query = self._add_bias(matmul(x, self.query, heads=self.num_heads))
            key, value = memory if isinstance(memory, tuple) else self.keys_values(memory)
        if self.score == "dot":
            query = query * ops.cast(math.sqrt(self.d_k), query.dtype)  # the scaled product divides by it
        if cache and self.score != "additive":
            heads = cache.attend(query, key, value, bias)
        else:
            heads = self._attend(query, key, value, bias, seed)
        return matmul(heads, self.output_kernel, self.output_bias)

    def _add_bias(self, query: Any) -> Any:
        if self.query_bias is None:
            return query
        return query + ops.reshape(ops.cast(self.query_bias, query.dtype), (self.num_heads, self.d_k))

    def keys_values(self, memory: Any) -> tuple[Any, Any]:
        """Keys [B, H, S, K] and values [B, H, S, V] of `memory` [B, S, D]; a search computes them once."""
        key, value = (matmul(memory, weights, heads=self.num_heads) for weights in (self.key, self.value))
        return _swap(key), _swap(value)

    def _attend(self, query_BTHK: Any, key_BHSK: Any, value_BHSV: Any, bias: Any, seed: Any) -> Any:
        """The heads, side by side -> [B, T, H * V]."""

        def drop(weights: Any, axis: int = 0) -> Any:
            return self.dropout(weights, seed=seed, axis=axis)

        watch = recorder(self)  # of the weights [B, H, T, S]; for pictures
        query_BHTK = _swap(query_BTHK)
        if self.score == "additive":
            heads = additive_attention(query_BHTK, key_BHSK, value_BHSV, self.score_vector, bias, drop, watch)
        elif isinstance(bias, Window) and not watch:
            within = functools.partial(drop, axis=1)
            heads = local_attention(query_BHTK, key_BHSK, value_BHSV, bias, within)
        else:
            full_bias = bias.full_bias() if isinstance(bias, Window) else bias
            relative = None
            if self.max_relative_position:
                at = ops.arange(ops.shape(query_BHTK)[2])
                relative = self._relative(at[None, :] - at[:, None], query_BHTK.dtype)
            heads = scaled_dot_product(query_BHTK, key_BHSK, value_BHSV, full_bias, drop, watch, relative)
        heads_BTHV = _swap(heads)
        return ops.reshape(heads_BTHV, (*batch_shape(heads_BTHV)[:-1], self.num_heads * self.d_v))

    def _relative(self, distances: Any, dtype: Any) -> Relative:
        """Returns what is added to keys and values at these distances, int [...]: [..., K] and [..., V]."""
        return Relative(*(vectors(table, distances, dtype) for table in (self.relative_keys, self.relative_values)))


def _swap(x: Any) -> Any:
    """[B, T, H, E] -> [B, H, T, E], or back."""
    return ops.transpose(x, (0, 2, 1, 3))
