"""Token embeddings and the softmax layer tied to them (section 3.4)."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import keras
from keras import ops

from t2t_lite.layers.masks import PAD
from t2t_lite.layers.matmul import batch_shape, is_bfloat16, matmul, step_dot
from t2t_lite.layers.matrix import Function, Matrix


class Embedding(keras.layers.Layer):
    """Token vectors times sqrt(d_model); the same matrix gives the logits.

    Padding, which is also the symbol that starts the decoder, has the zero vector.

    `table` is [vocab_size, d_model], or a `Matrix` [d_model, vocab_size].

    Args:
        vocab_size: rows.
        d_model: columns.
        output_dtype: of what `call` returns. It is not the layer's compute_dtype: where a layer of mixed precision is
            not called by another, Keras casts all of its weights, and here that is the whole table.

    Call arguments:
        ids: int [...].

    Returns:
        [..., d_model].
    """

    MATRICES: ClassVar = {"table": "OI"}

    def __init__(self, vocab_size: int, d_model: int, output_dtype: str = "float32", **kwargs: Any) -> None:
        super().__init__(autocast=False, dtype="float32", **kwargs)
        self.vocab_size, self.d_model, self.output_dtype = vocab_size, d_model, output_dtype

    def build(self, ids_shape: tuple[int | None, ...]) -> None:
        # Standard deviation d_model^-1/2 makes vectors of unit variance after the scaling, and logits too.
        initializer = keras.initializers.RandomNormal(stddev=self.d_model**-0.5)
        self.table = self.add_weight(name="table", shape=(self.vocab_size, self.d_model), initializer=initializer)

    def call(self, ids: Any) -> Any:
        scale = ops.cast(ops.not_equal(ids, PAD), self.output_dtype) * math.sqrt(self.d_model)
        table = self.table
        vectors = table.columns(ids) if isinstance(table, Matrix) else ops.take(table, ids, axis=0)
        return ops.cast(vectors, self.output_dtype) * scale[..., None]

    def logits(self, x: Any) -> Any:
        """[..., d_model] -> float32 [..., vocab_size]: x times the transposed table, without bias."""
        if isinstance(self.table, Matrix):
            return ops.cast(matmul(x, self.table), "float32")
        return self._logits(x, ops.cast(self.table, x.dtype))

    def step_logits(self, dtype: str) -> Function:
        """Returns a function that does what `logits` does to x in `dtype`, for the steps of a search.

        The table does not change from step to step, so it is laid out once, as the product wants it. In float32 that is
        transposed: TensorFlow's product would do so each time, at up to ten times its own cost without oneDNN.
        """
        if is_bfloat16(dtype) and not isinstance(self.table, Matrix):
            table = ops.cast(self.table, dtype)
            return lambda x: self._logits(x, table)
        kernel = self.table if isinstance(self.table, Matrix) else ops.transpose(self.table)
        product = step_dot(kernel, dtype)
        return lambda x: ops.cast(product(x), "float32")

    def _logits(self, x: Any, table: Any) -> Any:
        rows = ops.reshape(x, (-1, self.d_model))
        return ops.cast(
            ops.reshape(ops.matmul(rows, ops.transpose(table)), (*batch_shape(x), self.vocab_size)), "float32"
        )
