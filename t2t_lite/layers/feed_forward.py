"""The position-wise feed-forward network (section 3.3)."""

from __future__ import annotations

from typing import Any, ClassVar

import keras
from keras import ops

from t2t_lite.layers.dropout import Dropout
from t2t_lite.layers.matmul import matmul


class FeedForward(keras.layers.Layer):
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2, equation (2).

    Args:
        d_ff: size of the inner layer.
        dropout: share of inner activations that training drops; the paper drops none.
        fan_in: W_1 and W_2 are drawn within fan_in^-0.5, PyTorch's default; otherwise by Glorot and Bengio's rule,
            which gives larger weights.

    Call arguments:
        x: [..., d_model].
        seed: int32 [3], or None for inference.

    Returns:
        [..., d_model].
    """

    MATRICES: ClassVar = {"kernel_1": "IO", "kernel_2": "IO"}

    def __init__(self, d_ff: int, dropout: float = 0.0, *, fan_in: bool = False, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.d_ff, self.fan_in = d_ff, fan_in
        self.dropout = Dropout(dropout, name="dropout")

    def build(self, x_shape: tuple[int | None, ...]) -> None:
        d_model = x_shape[-1]

        def matrix(name: str, shape: tuple[int | None, int | None]) -> Any:
            scale, mode = (1 / 3, "fan_in") if self.fan_in else (1.0, "fan_avg")
            initializer = keras.initializers.VarianceScaling(scale, mode, "uniform")
            return self.add_weight(name=name, shape=shape, initializer=initializer)

        self.kernel_1 = matrix("kernel_1", (d_model, self.d_ff))
        self.bias_1 = self.add_weight(name="bias_1", shape=(self.d_ff,), initializer="zeros")
        self.kernel_2 = matrix("kernel_2", (self.d_ff, d_model))
        self.bias_2 = self.add_weight(name="bias_2", shape=(d_model,), initializer="zeros")

    def call(self, x: Any, seed: Any = None) -> Any:
        inner = ops.relu(matmul(x, self.kernel_1, self.bias_1))
        return matmul(self.dropout(inner, seed=seed), self.kernel_2, self.bias_2)
