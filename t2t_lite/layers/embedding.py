"""Token embeddings and the softmax layer tied to them (section 3.4)."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from t2t_lite.layers.dot import Function, is_bfloat16, leading, widened
from t2t_lite.layers.masks import PAD

_FEW = 32


class Embedding(keras.layers.Layer):
    """Token vectors times sqrt(d_model); the same matrix gives the logits.

    Padding, which is also the symbol that starts the decoder, has the zero vector.

    Args:
        vocab_size: rows.
        d_model: columns.

    Call arguments:
        ids: int [...].

    Returns:
        float32 [..., d_model].
    """

    def __init__(self, vocab_size: int, d_model: int, **kwargs: Any) -> None:
        # Where a layer of mixed precision is not called by another, Keras 3.15 casts all of its weights in each call.
        super().__init__(autocast=False, dtype="float32", **kwargs)
        self.vocab_size, self.d_model = vocab_size, d_model

    def build(self, ids_shape: tuple[int | None, ...]) -> None:
        # Standard deviation d_model^-1/2 makes vectors of unit variance after the scaling, and logits too.
        initializer = keras.initializers.RandomNormal(stddev=self.d_model**-0.5)
        self.table = self.add_weight(name="table", shape=(self.vocab_size, self.d_model), initializer=initializer)

    def call(self, ids: Any) -> Any:
        scale = ops.cast(ops.not_equal(ids, PAD), "float32") * math.sqrt(self.d_model)
        return ops.cast(ops.take(self.table, ids, axis=0), "float32") * scale[..., None]

    def logits(self, x: Any) -> Any:
        """[..., d_model] -> float32 [..., vocab_size]: x times the transposed table, without bias."""
        return self._logits(x, ops.cast(self.table, x.dtype))

    def step_logits(self, rows: Any, dtype: str) -> Function:
        """Returns a function that does what `logits` does to x in `dtype`, for the steps of a search.

        The table does not change from step to step, so it is laid out once, as the product wants it: in float32
        TensorFlow's own (without oneDNN, as on processors that lack AVX-512) rearranges a transposed matrix each time,
        which costs up to ten times as much as the product. For few rows it is cheaper to transpose the result.

        Args:
            rows: int scalar, how many rows x will have, at most.
        """
        table = ops.cast(self.table, dtype)
        if is_bfloat16(dtype):
            return lambda x: self._logits(x, table)
        few, table = rows <= _FEW, widened(table, 0)
        size = table.shape[0]
        flat = ops.cond(few, lambda: ops.reshape(table, (-1,)), lambda: ops.reshape(ops.transpose(table), (-1,)))

        def logits(x: Any) -> Any:
            x_RD = ops.reshape(x, (-1, self.d_model))
            product = ops.cond(
                few,
                lambda: ops.transpose(ops.matmul(ops.reshape(flat, (size, self.d_model)), ops.transpose(x_RD))),
                lambda: ops.matmul(x_RD, ops.reshape(flat, (self.d_model, size))),
            )
            product = ops.reshape(product, (*leading(x), size))
            return ops.cast(product if size == self.vocab_size else product[..., : self.vocab_size], "float32")

        return logits

    def _logits(self, x: Any, table: Any) -> Any:
        rows = ops.reshape(x, (-1, self.d_model))
        return ops.cast(ops.reshape(ops.matmul(rows, ops.transpose(table)), (*leading(x), self.vocab_size)), "float32")
