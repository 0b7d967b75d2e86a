"""A convolution over positions with gated linear units (Dauphin et al., 2017; Gehring et al., 2017, section 3.2)."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from t2t_lite.layers.weight_norm import WeightNormLinear


@keras.saving.register_keras_serializable("t2t_lite")
class GatedConvolution(keras.layers.Layer):
    """a * sigmoid(b), [a b] = W [x_t; ...; x_{t+k-1}] + b of each k positions in a row.

    The k inputs of a position are concatenated, so that a convolution is one product, in training and in a search.

    Args:
        inputs, outputs: channels.
        width: k.
        stddev: standard deviation of the initial weights; see `WeightNormLinear`.

    Call arguments:
        x: [..., T + k - 1, inputs].

    Returns:
        [..., T, outputs].
    """

    def __init__(self, inputs: int, outputs: int, width: int, stddev: float, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.inputs, self.width = inputs, width
        self.linear = WeightNormLinear(width * inputs, 2 * outputs, stddev, dtype=self.dtype_policy.name, name="linear")

    def build(self, x_shape: Any = None) -> None:
        self.linear.build()

    def call(self, x: Any) -> Any:
        last = ops.shape(x)[-2] - self.width + 1
        windows = [x[..., i : last + i, :] for i in range(self.width)]
        a, b = ops.split(self.linear(ops.concatenate(windows, -1) if self.width > 1 else x), 2, axis=-1)
        return a * ops.sigmoid(b)
