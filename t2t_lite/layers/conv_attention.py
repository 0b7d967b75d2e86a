"""Attention of one layer of a convolutional decoder to the source (Gehring et al., 2017, section 3.3)."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from t2t_lite.layers.weight_norm import WeightNormLinear


@keras.saving.register_keras_serializable("t2t_lite")
class ConvAttention(keras.layers.Layer):
    """h' = (out(c) + h) sqrt(1/2), c = sum over s of softmax_s(d . z_s) y_s, d = (in(h) + g) sqrt(1/2).

    Args:
        channels: of h.
        d_model: size of g, z and y.

    Call arguments:
        h: [B, T, channels]; any number of positions for each sentence.
        embedded: g, the vectors of the symbols before these positions, [B, T, d_model].
        keys: z, [B, S, d_model].
        values: y, with all factors that do not depend on the position, [B, S, d_model].
        bias: float32 [B, 1, S], which hides padding.

    Returns:
        h' [B, T, channels], and the weights, float32 [B, T, S].
    """

    def __init__(self, channels: int, d_model: int, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)

        def linear(inputs: int, outputs: int, name: str) -> WeightNormLinear:
            return WeightNormLinear(inputs, outputs, inputs**-0.5, dtype=self.dtype_policy.name, name=name)

        self.query, self.output_projection = linear(channels, d_model, "query"), linear(d_model, channels, "output")

    def build(self, h_shape: Any = None) -> None:
        self.query.build()
        self.output_projection.build()

    def call(self, h: Any, embedded: Any, keys: Any, values: Any, bias: Any) -> tuple[Any, Any]:
        query = (self.query(h) + embedded) * math.sqrt(0.5)
        scores = ops.matmul(query, ops.transpose(keys, (0, 2, 1)))
        weights = ops.softmax(ops.cast(scores, "float32") + bias)
        context = ops.matmul(ops.cast(weights, values.dtype), values)
        return (self.output_projection(context) + h) * math.sqrt(0.5), weights
