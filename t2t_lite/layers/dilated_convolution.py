"""A convolution over positions whose inputs may lie apart (Kalchbrenner et al., 2016, section 3.4)."""

from __future__ import annotations

from typing import Any, ClassVar

import keras
from keras import ops

from t2t_lite.layers.matmul import matmul


@keras.saving.register_keras_serializable("t2t_lite")
class DilatedConvolution(keras.layers.Layer):
    """W [x_t; x_{t+r}; ...; x_{t+(k-1)r}] + b.

    The k inputs of a position are concatenated, so that a convolution is one product, in training and in a search.

    Args:
        inputs, outputs: channels.
        width: k.
        dilation: r.
        bias: whether b is added.

    Attributes:
        span: positions from the first input to the last, (k - 1) r.
        size: how many numbers W has.

    Call arguments:
        x: [..., T + span, inputs].

    Returns:
        [..., T, outputs].
    """

    MATRICES: ClassVar = {"kernel": "IO"}

    def __init__(
        self, inputs: int, outputs: int, width: int = 1, dilation: int = 1, bias: bool = True, **kwargs: Any
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.inputs, self.outputs, self.width, self.dilation = inputs, outputs, width, dilation
        self.span, self.size = (width - 1) * dilation, width * inputs * outputs
        self.bias: Any = None
        self._has_bias = bias

    def build(self, x_shape: Any = None) -> None:
        shape = (self.width * self.inputs, self.outputs)
        self.kernel = self.add_weight(name="kernel", shape=shape, initializer="glorot_uniform")
        if self._has_bias:
            self.bias = self.add_weight(name="bias", shape=(self.outputs,), initializer="zeros")

    def call(self, x: Any) -> Any:
        if self.span:
            length, starts = ops.shape(x)[-2] - self.span, range(0, self.span + 1, self.dilation)
            x = ops.concatenate([x[..., start : start + length, :] for start in starts], -1)
        return matmul(x, self.kernel, self.bias)
