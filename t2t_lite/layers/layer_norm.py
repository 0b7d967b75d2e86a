"""Layer normalisation (Ba et al., 2016), which the paper takes over in section 3.1."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from t2t_lite.layers.functions import current

EPSILON = 1e-6  # not in the paper; tensor2tensor's value


def standardise(x: Any, epsilon: float = EPSILON) -> tuple[Any, Any]:
    """Returns `x` with mean 0 and variance 1 in each row, and the factor by which each row was scaled."""
    centred = x - ops.mean(x, -1, keepdims=True)
    inverse = ops.rsqrt(ops.mean(ops.square(centred), -1, keepdims=True) + epsilon)
    return centred * inverse, inverse


def layer_norm(x: Any, gamma: Any, beta: Any, epsilon: float = EPSILON) -> Any:
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta over the last axis."""
    return standardise(x, epsilon)[0] * gamma + beta


@keras.saving.register_keras_serializable("t2t_lite")
class LayerNorm(keras.layers.Layer):
    """`layer_norm` in float32.

    Args:
        epsilon: added to each row's variance.
        compute_dtype: dtype of what `call` returns.

    Call arguments:
        x: [..., D].

    Returns:
        [..., D].
    """

    def __init__(self, epsilon: float = EPSILON, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.epsilon = epsilon

    def build(self, x_shape: tuple[int | None, ...]) -> None:
        self.gamma = self.add_weight(name="gamma", shape=(x_shape[-1],), initializer="ones")
        self.beta = self.add_weight(name="beta", shape=(x_shape[-1],), initializer="zeros")

    def call(self, x: Any) -> Any:
        inputs = (ops.cast(value, "float32") for value in (x, self.gamma, self.beta))
        return ops.cast(current(layer_norm)(*inputs, self.epsilon), self.compute_dtype)
