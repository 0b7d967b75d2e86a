"""The position-wise feed-forward network (section 3.3), and its gated form (Shazeer, 2020)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar

import keras
from keras import ops

from t2t_lite.layers.dropout import Dropout
from t2t_lite.layers.matmul import matmul

ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "relu": ops.relu,
    "swish": ops.silu,  # x sigmoid(x) (Ramachandran et al., 2017)
    "gelu": functools.partial(ops.gelu, approximate=False),  # x Phi(x) (Hendrycks and Gimpel, 2016)
}


@keras.saving.register_keras_serializable("t2t_lite")
class FeedForward(keras.layers.Layer):
    """FFN(x) = f(x W_1 + b_1) W_2 + b_2, with f(x) = max(0, x) equation (2).

    Args:
        d_ff: size of the inner layer.
        dropout: share of inner activations that training drops; the paper drops none.
        fan_in: matrices are drawn within fan_in^-0.5, PyTorch's default; otherwise by Glorot and Bengio's rule, which
            gives larger weights.
        activation: f, a name of `ACTIVATIONS`.
        beta: the initial matrices are multiplied by this; that of DeepNorm (Wang et al., 2022).

    Call arguments:
        x: [..., d_model].
        seed: int32 [3], or None for inference.

    Returns:
        [..., d_model].
    """

    MATRICES: ClassVar = {"kernel_1": "IO", "kernel_2": "IO"}

    def __init__(
        self,
        d_ff: int,
        dropout: float = 0.0,
        *,
        fan_in: bool = False,
        activation: str = "relu",
        beta: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.d_ff, self.fan_in, self.activation, self.beta = d_ff, fan_in, ACTIVATIONS[activation], beta
        self.dropout = Dropout(dropout, name="dropout")

    def build(self, x_shape: tuple[int | None, ...]) -> None:
        d_model = x_shape[-1]
        self.kernel_1 = self._matrix("kernel_1", (d_model, self.d_ff))
        self.bias_1 = self.add_weight(name="bias_1", shape=(self.d_ff,), initializer="zeros")
        self.kernel_2 = self._matrix("kernel_2", (self.d_ff, d_model))
        self.bias_2 = self.add_weight(name="bias_2", shape=(d_model,), initializer="zeros")

    def _matrix(self, name: str, shape: tuple[int | None, int | None]) -> Any:
        scale, mode = (1 / 3, "fan_in") if self.fan_in else (1.0, "fan_avg")
        initializer = keras.initializers.VarianceScaling(scale * self.beta**2, mode, "uniform")
        return self.add_weight(name=name, shape=shape, initializer=initializer)

    def call(self, x: Any, seed: Any = None) -> Any:
        inner = self.activation(matmul(x, self.kernel_1, self.bias_1))
        return matmul(self.dropout(inner, seed=seed), self.kernel_2, self.bias_2)


@keras.saving.register_keras_serializable("t2t_lite")
class GatedFeedForward(FeedForward):
    """(f(x W_1) * x V) W_2, without biases ("GLU Variants Improve Transformer", arXiv 2002.05202, equation (6)).

    It is called SwiGLU if f is swish, GEGLU if it is gelu, and ReGLU if it is relu. Arguments and calls are those of
    `FeedForward`; two thirds of its d_ff give as many weights.
    """

    MATRICES: ClassVar = {**FeedForward.MATRICES, "gate": "IO"}

    def build(self, x_shape: tuple[int | None, ...]) -> None:
        d_model = x_shape[-1]
        self.kernel_1 = self._matrix("kernel_1", (d_model, self.d_ff))
        self.gate = self._matrix("gate", (d_model, self.d_ff))
        self.kernel_2 = self._matrix("kernel_2", (self.d_ff, d_model))

    def call(self, x: Any, seed: Any = None) -> Any:
        inner = self.activation(matmul(x, self.kernel_1)) * matmul(x, self.gate)
        return matmul(self.dropout(inner, seed=seed), self.kernel_2)
