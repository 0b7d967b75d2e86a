"""Attention of a recurrent decoder to the source (Bahdanau et al., 2015; Luong et al., 2015)."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import keras
from keras import ops

from t2t_lite.layers.linear import Linear
from t2t_lite.layers.matmul import matmul

Score = Literal["dot", "general", "additive", "normed_additive", "product"]
Result = Literal["tanh", "linear", "concat", "context"]


@keras.saving.register_keras_serializable("t2t_lite")
class RnnAttention(keras.layers.Layer):
    """The context a = sum over s of softmax_s(score(q, m_s)) m_s of a decoder's output q, alone or with q.

    Scores:
        dot: q . m (Luong et al., 2015, equation 8)
        general: q . (U m) (the same)
        additive: v . tanh(W q + U m) (Bahdanau et al., 2015, appendix A.1.2)
        normed_additive: (g / |v|) v . tanh(W q + U m + b) (Salimans and Kingma, 2016, as in tensorflow/nmt)
        product: v . (tanh(W q) * tanh(U m)) (Shazeer et al., 2017, appendix E)

    Results:
        tanh: the attentional vector tanh(W_c [a; q]) (Luong et al., 2015, equation 5)
        linear: W_c [a; q]
        concat: [a; q]
        context: a

    Args:
        units: size of q and m.
        score, result: as above.
        outputs: rows of W_c; None: `units`.

    Attributes:
        outputs: size of the result.

    Call arguments:
        query: [B, Q, units]; any number of queries for each sentence.
        memory: m, [B, S, units].
        keys: from `keys_of`.
        bias: float32 [B, 1, S], which hides padding.

    Returns:
        The results [B, Q, outputs], and the weights, float32 [B, Q, S].
    """

    FLOAT32: ClassVar = ("vector",)

    def __init__(
        self, units: int, score: Score, result: Result = "tanh", outputs: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.units, self.score, self.result = units, score, result
        combines = result in ("tanh", "linear")
        self.outputs = (outputs or units) if combines else {"concat": 2 * units, "context": units}[result]

        def matrix(rows: int, columns: int, name: str) -> Linear:
            return Linear(rows, columns, dtype=self.dtype_policy.name, name=name)

        # U m, which does not depend on the query
        self.keys = None if score == "dot" else matrix(units, units, "keys")
        self.query = None if score in ("dot", "general") else matrix(units, units, "query")
        self.combined = matrix(2 * units, self.outputs, "combined") if combines else None

    def build(self, query_shape: Any = None) -> None:
        for part in (self.keys, self.query, self.combined):
            if part is not None:
                part.build()
        if self.query is not None:
            self.vector = self.add_weight(name="vector", shape=(self.units, 1), initializer="glorot_uniform")
        if self.score == "normed_additive":
            start = keras.initializers.Constant(self.units**-0.5)
            self.gain = self.add_weight(name="gain", shape=(1,), initializer=start)
            self.bias = self.add_weight(name="bias", shape=(self.units,), initializer="zeros")

    def keys_of(self, memory: Any) -> Any:
        """Returns the part of the score that does not depend on the query, [B, S, units]."""
        if self.keys is None:
            return memory
        return ops.tanh(self.keys(memory)) if self.score == "product" else self.keys(memory)

    def call(self, query: Any, memory: Any, keys: Any, bias: Any) -> tuple[Any, Any]:
        query = ops.cast(query, self.compute_dtype)
        weights = ops.softmax(ops.cast(self._scores(query, keys), "float32") + bias)
        context = ops.matmul(ops.cast(weights, memory.dtype), memory)
        if self.result == "context":
            return context, weights
        both = ops.concatenate([context, query], -1)
        if self.combined is None:
            return both, weights
        combined = self.combined(both)
        return ops.tanh(combined) if self.result == "tanh" else combined, weights

    def _scores(self, query: Any, keys: Any) -> Any:
        """[B, Q, S]."""
        if self.query is None:
            return ops.matmul(query, ops.transpose(keys, (0, 2, 1)))
        query = self.query(query)
        if self.score == "product":
            shares = ops.tanh(query) * ops.cast(self.vector[:, 0], query.dtype)
            return ops.matmul(shares, ops.transpose(keys, (0, 2, 1)))
        vector = self.vector
        if self.score == "normed_additive":
            query = query + ops.cast(self.bias, query.dtype)
            vector = vector * (self.gain / ops.sqrt(ops.sum(ops.square(vector))))
        inner = ops.tanh(query[:, :, None] + keys[:, None])  # [B, Q, S, units]
        return matmul(inner, vector)[..., 0]
