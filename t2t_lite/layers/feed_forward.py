"""The position-wise feed-forward network (section 3.3)."""

from __future__ import annotations

from typing import Any, ClassVar

import keras
from keras import ops

from t2t_lite.layers.dropout import Dropout
from t2t_lite.layers.matmul import matmul, step_dot, widened
from t2t_lite.layers.matrix import Function, Matrix


class FeedForward(keras.layers.Layer):
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2, equation (2).

    Args:
        d_ff: size of the inner layer.
        dropout: share of inner activations that training drops; the paper drops none.
        fan_in: W_1 and W_2 are drawn within fan_in^-0.5, PyTorch's default; or by Glorot and Bengio, which is larger.

    Call arguments:
        x: [..., d_model].
        seed: int32 [2], or None for inference.

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

        def kernel(name: str, shape: tuple[int | None, int | None]) -> Any:
            scale, mode = (1 / 3, "fan_in") if self.fan_in else (1.0, "fan_avg")
            initializer = keras.initializers.VarianceScaling(scale, mode, "uniform")
            return self.add_weight(name=name, shape=shape, initializer=initializer)

        self.kernel_1 = kernel("kernel_1", (d_model, self.d_ff))
        self.bias_1 = self.add_weight(name="bias_1", shape=(self.d_ff,), initializer="zeros")
        self.kernel_2 = kernel("kernel_2", (self.d_ff, d_model))
        self.bias_2 = self.add_weight(name="bias_2", shape=(d_model,), initializer="zeros")

    def call(self, x: Any, seed: Any = None) -> Any:
        inner = ops.relu(matmul(x, self.kernel_1) + ops.cast(self.bias_1, x.dtype))
        inner = self.dropout(inner, seed=seed)
        return matmul(inner, self.kernel_2) + ops.cast(self.bias_2, x.dtype)

    def step(self, dtype: str) -> Function:
        """Returns what maps `x` in `dtype` to `self(x)`, for the steps of a search."""
        kernel_1, kernel_2 = self.kernel_1, self.kernel_2
        bias_1, bias_2 = ops.cast(self.bias_1, dtype), ops.cast(self.bias_2, dtype)
        if not isinstance(kernel_1, Matrix):
            # With zeros for inner units as well, the inner layer goes from one product to the other as it is.
            kernel_1, bias_1 = widened(ops.cast(kernel_1, dtype), 1), widened(bias_1, 0)
            kernel_2 = widened(ops.cast(kernel_2, dtype), 0)
        first, second = step_dot(kernel_1, dtype), step_dot(kernel_2, dtype)
        return lambda x: second(ops.relu(first(x) + bias_1)) + bias_2
