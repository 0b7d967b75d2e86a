"""Parts shared by encoder and decoder: sub-layers as a recipe says, and a stack of N layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import keras

from t2t_lite.layers.attention import MultiHeadAttention
from t2t_lite.layers.dropout import fold_in
from t2t_lite.layers.feed_forward import FeedForward, GatedFeedForward
from t2t_lite.layers.layer_norm import LayerNorm
from t2t_lite.layers.mixture_of_experts import MixtureOfExperts
from t2t_lite.layers.no_build_trace import NoBuildTrace
from t2t_lite.layers.residual import Residual
from t2t_lite.models.recipe_layer import RecipeLayer
from t2t_lite.models.transformer_hparams import TransformerHParams

Experts = tuple[int, int]  # n and k of a mixture


class Block(NoBuildTrace, RecipeLayer):
    """A layer of the Transformer, or a stack of layers, whose parts are made as a recipe says.

    Args:
        hparams: the recipe.
        experts: of a mixture that takes the place of the feed-forward network; None: the network.
    """

    hparams: TransformerHParams
    side: ClassVar[str]  # "encoder" or "decoder"

    def __init__(self, hparams: TransformerHParams, experts: Experts | None = None, **kwargs: Any) -> None:
        super().__init__(hparams, **kwargs)
        self.experts = experts
        self._alpha, self._beta = hparams.deep_norm[self.side]

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "experts": self.experts}

    def make_self_attention(self) -> MultiHeadAttention:
        reach, rotary = self.hparams.max_relative_position, self.hparams.positions == "rotary"
        return self._make_attention("self_attention", max_relative_position=reach, rotary=rotary)

    def make_cross_attention(self) -> MultiHeadAttention:
        return self._make_attention("memory_attention")

    def _make_attention(self, name: str, **positions: Any) -> MultiHeadAttention:
        hparams = self.hparams
        return MultiHeadAttention(
            hparams.num_heads,
            *hparams.head_sizes,
            hparams.attention_dropout,
            gain=1.0 if hparams.initial_weights == "glorot" else 0.5**0.5,
            biases=hparams.attention_biases,
            score=hparams.attention_score,
            beta=self._beta,
            **positions,
            dtype=self.dtype_policy.name,
            name=name,
        )

    def make_feed_forward(self) -> Any:
        hparams, dtype = self.hparams, self.dtype_policy.name
        fan_in = hparams.initial_weights == "fairseq012"
        if self.experts is not None:
            return MixtureOfExperts(*self.experts, hparams.d_ff, fan_in=fan_in, dtype=dtype, name="experts")
        return {"plain": FeedForward, "gated": GatedFeedForward}[hparams.ffn](
            hparams.d_ff,
            hparams.relu_dropout,
            fan_in=fan_in,
            activation=hparams.activation,
            beta=self._beta,
            dtype=dtype,
            name="feed_forward",
        )

    def make_residual(self, name: str) -> Residual:
        hparams, how = self.hparams, {"dtype": self.dtype_policy.name, "name": name}
        return Residual(hparams.norm, hparams.dropout, hparams.norm_epsilon, self._alpha, **how)


class Stack(Block):
    """N layers, one after the other; with pre-norm, a final layer normalisation follows them.

    Args:
        hparams: as for `Block`.
        experts: of a mixture in the second layer, the fourth, and so on.
    """

    layer: ClassVar[type[Block]]

    def __init__(self, hparams: TransformerHParams, experts: Experts | None = None, **kwargs: Any) -> None:
        super().__init__(hparams, experts, **kwargs)
        dtype = self.dtype_policy.name
        self.blocks = [
            self.layer(hparams, experts if i % 2 else None, dtype=dtype, name=f"layer_{i}")
            for i in range(self.num_layers())
        ]
        pre = hparams.norm == "pre"
        self.final_norm = LayerNorm(hparams.norm_epsilon, dtype=dtype, name="final_norm") if pre else None

    def num_layers(self) -> int:
        return self.hparams.num_layers

    def run(self, x: Any, *memory: Any, seed: Any, caches: Sequence[Any] | None = None, **biases: Any) -> Any:
        for i, block in enumerate(self.blocks):
            given = {**biases, **({"cache": caches[i]} if caches else {}), "seed": fold_in(seed, i)}

            def layer(*inputs: Any, block: Any = block, given: Any = given) -> Any:
                return block(*inputs, **given)

            x = (keras.remat(layer) if self.hparams.remat and seed is not None else layer)(x, *memory)
        return self.final_norm(x) if self.final_norm else x
