"""Attention of a recurrent decoder to the source (Bahdanau et al., 2015; Luong et al., 2015)."""

from __future__ import annotations

from typing import Any, Literal

import keras
from keras import ops

from t2t_lite.layers.linear import Linear
from t2t_lite.layers.matmul import matmul

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

    def __init__(self, units: int, score: Score, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.units = units

        def matrix(rows: int, name: str) -> Linear:
            return Linear(rows, units, dtype=self.dtype_policy, name=name)

        self.keys = matrix(units, "keys")  # U m: what does not depend on the query
        self.query = matrix(units, "query") if score == "additive" else None
        self.combined = matrix(2 * units, "combined")

    def build(self, query_shape: Any = None) -> None:
        for matrix in (self.keys, self.query, self.combined):
            if matrix is not None:
                matrix.build()
        if self.query is not None:
            self.vector = self.add_weight(name="vector", shape=(self.units, 1), initializer="glorot_uniform")

    def call(self, query: Any, memory: Any, keys: Any, bias: Any) -> tuple[Any, Any]:
        query = ops.cast(query, self.compute_dtype)
        weights = ops.softmax(ops.cast(self._scores(query, keys), "float32") + bias)
        context = ops.matmul(ops.cast(weights, memory.dtype), memory)
        return ops.tanh(self.combined(ops.concatenate([context, query], -1))), weights

    def _scores(self, query: Any, keys: Any) -> Any:
        if self.query is None:
            return ops.matmul(query, ops.transpose(keys, (0, 2, 1)))
        inner = ops.tanh(self.query(query)[:, :, None] + keys[:, None])  # [B, Q, S, units]
        return matmul(inner, self.vector)[..., 0]
