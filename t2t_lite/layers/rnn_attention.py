"""Attention of a recurrent decoder to the source (Bahdanau et al., 2015; Luong et al., 2015)."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import keras
from keras import ops

from t2t_lite.layers.dot import dot

Score = Literal["general", "additive"]


class RnnAttention(keras.layers.Layer):
    """The attentional vector of a decoder's output q: tanh(W_c [a; q]), a = sum over s of softmax_s(score(q, m_s)) m_s.

    Scores: "general" q . (U m) (Luong et al., 2015, equation 8), "additive" v . tanh(W q + U m) (Bahdanau et al.,
    2015, appendix A.1.2). There are no biases.

    Args:
        units: size of q, m and the result.
        score: as above.

    Call arguments:
        query: [B, Q, units]; any number of queries for each sentence.
        memory: m, [B, S, units].
        keys: U m, from `keys`.
        bias: float32 [B, 1, S], which hides padding.

    Returns:
        The attentional vectors [B, Q, units], and the weights, float32 [B, Q, S].
    """

    KERNELS: ClassVar = {"key": "IO", "query": "IO", "output_kernel": "IO"}

    def __init__(self, units: int, score: Score, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.units, self.score = units, score

    def build(self, query_shape: tuple[int | None, ...]) -> None:
        def matrix(name: str, rows: int, columns: int) -> Any:
            return self.add_weight(name=name, shape=(rows, columns), initializer="glorot_uniform")

        self.key = matrix("key", self.units, self.units)
        self.query = self.vector = None
        if self.score == "additive":
            self.query = matrix("query", self.units, self.units)
            self.vector = matrix("vector", self.units, 1)
        self.output_kernel = matrix("output", 2 * self.units, self.units)

    def keys(self, memory: Any) -> Any:
        """What does not depend on the query: U m, [B, S, units]."""
        return dot(ops.cast(memory, self.compute_dtype), self.key)

    def call(self, query: Any, memory: Any, keys: Any, bias: Any) -> tuple[Any, Any]:
        query = ops.cast(query, self.compute_dtype)
        weights = ops.softmax(ops.cast(self._scores(query, keys), "float32") + bias)
        context = ops.matmul(ops.cast(weights, memory.dtype), memory)
        return ops.tanh(dot(ops.concatenate([context, query], -1), self.output_kernel)), weights

    def _scores(self, query: Any, keys: Any) -> Any:
        if self.score == "general":
            return ops.matmul(query, ops.transpose(keys, (0, 2, 1)))
        inner = ops.tanh(dot(query, self.query)[:, :, None] + keys[:, None])  # [B, Q, S, units]
        return dot(inner, self.vector)[..., 0]
