"""Parts shared by encoder and decoder: a factory of sub-layers, their precision, and a stack of N layers."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Self

import keras

from t2t_lite.layers.attention import MultiHeadAttention
from t2t_lite.layers.dropout import fold_in
from t2t_lite.layers.feed_forward import FeedForward
from t2t_lite.layers.layer_norm import LayerNorm
from t2t_lite.layers.no_build_trace import NoBuildTrace
from t2t_lite.layers.residual import Residual
from t2t_lite.models.base import policy_of
from t2t_lite.models.transformer_hparams import TransformerHParams


@dataclasses.dataclass(frozen=True)
class LayerFactory:
    """Makes the parts of encoder and decoder layers; fields are named as the layers' arguments and as in HParams."""

    num_heads: int
    d_k: int
    d_v: int
    d_ff: int
    norm: str
    dropout: float
    attention_dropout: float
    relu_dropout: float
    initial_weights: str
    max_relative_position: int
    attention_biases: bool
    attention_score: str
    norm_epsilon: float

    @classmethod
    def from_hparams(cls, hparams: TransformerHParams, **further: Any) -> Self:
        """Returns the factory of a recipe; `further` are fields that a derived class adds."""
        per_head = hparams.d_model // hparams.num_heads
        return cls(
            num_heads=hparams.num_heads,
            d_k=hparams.d_k or per_head,
            d_v=hparams.d_v or per_head,
            d_ff=hparams.d_ff,
            norm=hparams.norm,
            dropout=hparams.dropout,
            attention_dropout=hparams.attention_dropout,
            relu_dropout=hparams.relu_dropout,
            initial_weights=hparams.initial_weights,
            max_relative_position=hparams.max_relative_position,
            attention_biases=hparams.attention_biases,
            attention_score=hparams.attention_score,
            norm_epsilon=hparams.norm_epsilon,
            **further,
        )

    def of_layer(self, number: int) -> LayerFactory:
        """Returns the factory of layer `number`, from 0."""
        return self

    def self_attention(self) -> MultiHeadAttention:
        return self._attention("self_attention", self.max_relative_position)

    def cross_attention(self) -> MultiHeadAttention:
        return self._attention("memory_attention", 0)

    def _attention(self, name: str, max_relative_position: int) -> MultiHeadAttention:
        gain = 1.0 if self.initial_weights == "glorot" else 0.5**0.5
        sizes = self.num_heads, self.d_k, self.d_v, self.attention_dropout, gain, max_relative_position
        return MultiHeadAttention(*sizes, self.attention_biases, self.attention_score, name=name)

    def feed_forward(self) -> Any:
        fan_in = self.initial_weights == "fairseq012"
        return FeedForward(self.d_ff, self.relu_dropout, fan_in=fan_in, name="feed_forward")

    def residual(self, name: str) -> Residual:
        return Residual(self.norm, self.dropout, self.norm_epsilon, name=name)


@contextlib.contextmanager
def layers_in(precision: str) -> Iterator[None]:
    """Layers that are made in this context compute in `precision`, float32 or bfloat16."""
    previous = keras.config.dtype_policy()
    keras.config.set_dtype_policy(keras.dtype_policies.DTypePolicy(policy_of(precision)))
    try:
        yield
    finally:
        keras.config.set_dtype_policy(previous)


class Stack(NoBuildTrace, keras.layers.Layer):
    """N layers, one after the other; with pre-norm, a final layer normalisation follows them.

    Args:
        num_layers: N.
        factory: makes the parts of each layer.
        remat: training keeps the inputs of layers only, and computes the rest again for the gradients.
    """

    layer: ClassVar[Any]

    def __init__(self, num_layers: int, factory: LayerFactory, remat: bool, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.remat = remat
        self.blocks = [self.layer(factory.of_layer(i), name=f"layer_{i}") for i in range(num_layers)]
        self.final_norm = LayerNorm(factory.norm_epsilon, name="final_norm") if factory.norm == "pre" else None

    def run(self, x: Any, *memory: Any, seed: Any, caches: Sequence[Any] | None = None, **biases: Any) -> Any:
        for i, block in enumerate(self.blocks):
            given = {**biases, **({"cache": caches[i]} if caches else {}), "seed": fold_in(seed, i)}

            def layer(*inputs: Any, block: Any = block, given: Any = given) -> Any:
                return block(*inputs, **given)

            x = (keras.remat(layer) if self.remat and seed is not None else layer)(x, *memory)
        return self.final_norm(x) if self.final_norm else x
