"""Token embeddings, whose table may be the softmax layer's as well (section 3.4)."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import keras
from keras import ops

from t2t_lite.ids import PAD
from t2t_lite.layers.matmul import take


@keras.saving.register_keras_serializable("t2t_lite")
class Embedding(keras.layers.Layer):
    """Token vectors times sqrt(d_model).

    Padding, which is also the symbol that starts the decoder, has the zero vector.

    Args:
        vocab_size: rows.
        d_model: columns.
        output_dtype: dtype of what `call` returns. It is not the layer's compute_dtype: if no other layer calls a
            layer of mixed precision, Keras casts all weights of that layer, which here means the whole table.

    Call arguments:
        ids: int [...].

    Returns:
        [..., d_model].
    """

    MATRICES: ClassVar = {"table": "OI"}

    def __init__(self, vocab_size: int, d_model: int, output_dtype: str = "float32", **kwargs: Any) -> None:
        super().__init__(autocast=False, **{"dtype": "float32", **kwargs})
        self.vocab_size, self.d_model, self.output_dtype = vocab_size, d_model, output_dtype

    def build(self, ids_shape: tuple[int | None, ...]) -> None:
        # Standard deviation d_model^-1/2 makes vectors of unit variance after the scaling, and logits too.
        initializer = keras.initializers.RandomNormal(stddev=self.d_model**-0.5)
        self.table = self.add_weight(name="table", shape=(self.vocab_size, self.d_model), initializer=initializer)

    def call(self, ids: Any) -> Any:
        scale = ops.cast(ops.not_equal(ids, PAD), self.output_dtype) * math.sqrt(self.d_model)
        return ops.cast(take(self.table, ids), self.output_dtype) * scale[..., None]
