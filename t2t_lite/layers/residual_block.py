"""A residual block of convolutions, each of which is given a ReLU of normalised inputs (ByteNet, Figure 3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
from keras import ops

from t2t_lite.layers.dilated_convolution import DilatedConvolution
from t2t_lite.layers.dropout import Dropout
from t2t_lite.layers.layer_norm import LayerNorm

Widen = Callable[[DilatedConvolution, Any], Any]


class Size(NamedTuple):
    """The size of a convolution; the fields are arguments of `DilatedConvolution`."""

    inputs: int
    outputs: int
    width: int = 1
    dilation: int = 1


@keras.saving.register_keras_serializable("t2t_lite")
class ResidualBlock(keras.layers.Layer):
    """x + Dropout(f_n(... f_1(x))), f_i(x) = conv_i(ReLU(LayerNorm(x))).

    Args:
        sizes: sizes of the convolutions.
        dropout: share of the values added to x that training drops.
        normalised: what is added is normalised as well, and convolutions have no biases, which a norm would undo
            (tensor2tensor).

    Attributes:
        convolutions: the convolutions, in order.

    Call arguments:
        x: [..., T, C].
        widen: takes a convolution and its inputs at the T positions; returns all its inputs [..., T + span, I].
        seed: int32 [3], or None for inference.

    Returns:
        [..., T, C].
    """

    def __init__(self, sizes: Sequence[Size], dropout: float, normalised: bool = False, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        policy = self.dtype_policy.name
        self.sizes = sizes = [Size(*size) for size in sizes]
        self.norms = [LayerNorm(dtype=policy, name=f"norm_{i}") for i in range(len(sizes))]
        self.convolutions = [
            DilatedConvolution(*size, bias=not normalised, dtype=policy, name=f"convolution_{i}")
            for i, size in enumerate(sizes)
        ]
        self.last_norm = LayerNorm(dtype=policy, name="last_norm") if normalised else None
        self.dropout = Dropout(dropout, name="dropout")

    def build(self, x_shape: Any = None) -> None:
        for size, norm, convolution in zip(self.sizes, self.norms, self.convolutions, strict=True):
            norm.build((None, size.inputs))
            convolution.build()
        if self.last_norm is not None:
            self.last_norm.build((None, self.sizes[-1].outputs))

    def call(self, x: Any, widen: Widen, seed: Any = None) -> Any:
        added = x
        for norm, convolution in zip(self.norms, self.convolutions, strict=True):
            added = convolution(widen(convolution, ops.relu(norm(added))))
        if self.last_norm is not None:
            added = self.last_norm(added)
        return x + self.dropout(added, seed=seed)
