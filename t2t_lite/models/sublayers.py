"""What all layers of a model have in common, and the sub-layers made of it."""

from __future__ import annotations

import dataclasses
from typing import Any

import keras

from t2t_lite.layers.attention import MultiHeadAttention
from t2t_lite.layers.feed_forward import FeedForward
from t2t_lite.layers.layer_norm import LayerNorm
from t2t_lite.layers.residual import Residual


@dataclasses.dataclass(frozen=True)
class Sublayers:
    """Makes the parts of encoder and decoder layers; fields as the arguments of the layers and as in HParams."""

    num_heads: int
    d_k: int
    d_v: int
    d_ff: int
    norm: str
    dropout: float
    attention_dropout: float
    relu_dropout: float
    initial_weights: str

    def attention(self, name: str) -> MultiHeadAttention:
        gain = 1.0 if self.initial_weights == "glorot" else 0.5**0.5
        return MultiHeadAttention(self.num_heads, self.d_k, self.d_v, self.attention_dropout, gain, name=name)

    def feed_forward(self) -> FeedForward:
        return FeedForward(
            self.d_ff, self.relu_dropout, fan_in=self.initial_weights == "fairseq012", name="feed_forward"
        )

    def residual(self, name: str) -> Residual:
        return Residual(self.norm, self.dropout, name=name)

    def final_norm(self) -> LayerNorm | None:
        """The layer normalisation after the last layer of a pre-norm stack."""
        return LayerNorm(name="final_norm") if self.norm == "pre" else None


def apply_layer(layer: Any, *inputs: Any, remat: bool, **given: Any) -> Any:
    """Returns layer(*inputs, **given).

    Args:
        remat: in training (`given` has a seed), keep nothing but the inputs, and compute the rest again for the
            gradients, which are those of the inputs and of the layer's weights.
    """

    def call(*inputs: Any) -> Any:
        return layer(*inputs, **given)

    return (keras.remat(call) if remat and given["seed"] is not None else call)(*inputs)
