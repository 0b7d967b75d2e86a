"""Token embeddings and the softmax layer tied to them (section 3.4)."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from t2t_lite.layers.masks import PAD


class Embedding(keras.layers.Layer):
    """Token vectors times sqrt(d_model); the same matrix gives the logits.

    Padding, which is also the symbol that starts the decoder, has the zero vector.

    Args:
        vocab_size: rows.
        d_model: columns.
        compute_dtype: dtype of what `call` returns.

    Call arguments:
        ids: int [...].

    Returns:
        [..., d_model].
    """

    def __init__(self, vocab_size: int, d_model: int, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.vocab_size, self.d_model = vocab_size, d_model

    def build(self, ids_shape: tuple[int | None, ...]) -> None:
        # Standard deviation d_model^-1/2 makes vectors of unit variance after the scaling, and logits too.
        initializer = keras.initializers.RandomNormal(stddev=self.d_model**-0.5)
        self.table = self.add_weight(name="table", shape=(self.vocab_size, self.d_model), initializer=initializer)

    def call(self, ids: Any) -> Any:
        scale = ops.cast(ops.not_equal(ids, PAD), self.compute_dtype) * math.sqrt(self.d_model)
        return ops.cast(ops.take(self.table, ids, axis=0), self.compute_dtype) * scale[..., None]

    def logits(self, x: Any) -> Any:
        """[..., d_model] -> float32 [..., vocab_size]: x times the transposed table, without bias."""
        rows = ops.reshape(x, (-1, self.d_model))
        product = ops.matmul(rows, ops.transpose(ops.cast(self.table, x.dtype)))
        return ops.cast(ops.reshape(product, (*ops.shape(x)[:-1], self.vocab_size)), "float32")
