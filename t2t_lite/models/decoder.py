"""The decoder stack (section 3.1, right half of Figure 1).

Legend: B batch, T target length, S source length, H heads.
"""

from __future__ import annotations

from typing import Any

import keras

from t2t_lite.layers.dropout import fold_in
from t2t_lite.models.stack import Block, Experts, Stack
from t2t_lite.models.transformer_hparams import TransformerHParams


@keras.saving.register_keras_serializable("t2t_lite")
class DecoderLayer(Block):
    """Masked self-attention, attention over the encoder's output, feed-forward network.

    Args:
        hparams, experts: as for `Block`.

    Call arguments:
        x: [B, T, d_model].
        memory: [B, S, d_model], the encoder's output.
        self_bias: float32, broadcastable to [B, H, T, T], or a `Window`; hides the future.
        memory_bias: float32, broadcastable to [B, H, T, S]; hides padding.
        cache: in a step of a search, this layer's cache; see `MultiHeadAttention`. `cache.memory` then has the keys and
            values of the memory, `memory` is None, and the axis T is that of hypotheses.
        seed: int32 [3], or None for inference.

    Returns:
        [B, T, d_model].
    """

    side = "decoder"

    def __init__(self, hparams: TransformerHParams, experts: Experts | None = None, **kwargs: Any) -> None:
        super().__init__(hparams, experts, **kwargs)
        self.self_attention = self.make_self_attention()
        self.cross_attention = self.make_cross_attention()
        self.feed_forward = self.make_feed_forward()
        self.self_attention_residual = self.make_residual("around_self")
        self.cross_attention_residual = self.make_residual("around_memory")
        self.feed_forward_residual = self.make_residual("around_feed_forward")

    def call(
        self, x: Any, memory: Any, self_bias: Any = None, memory_bias: Any = None, cache: Any = None, seed: Any = None
    ) -> Any:
        if cache:
            memory = cache.memory
        x = self.self_attention_residual(
            x,
            sublayer=lambda y: self.self_attention(y, bias=self_bias, cache=cache, seed=fold_in(seed, 0)),
            seed=fold_in(seed, 1),
        )
        x = self.cross_attention_residual(
            x,
            sublayer=lambda y: self.cross_attention(y, memory, bias=memory_bias, cache=cache, seed=fold_in(seed, 2)),
            seed=fold_in(seed, 3),
        )
        return self.feed_forward_residual(
            x, sublayer=lambda y: self.feed_forward(y, seed=fold_in(seed, 4)), seed=fold_in(seed, 5)
        )


@keras.saving.register_keras_serializable("t2t_lite")
class Decoder(Stack):
    """N decoder layers. Call arguments and result: as `DecoderLayer`, except `caches`: one cache for each layer."""

    layer, side = DecoderLayer, DecoderLayer.side
    blocks: list[DecoderLayer]

    def num_layers(self) -> int:
        return self.hparams.decoder_layers

    def call(
        self, x: Any, memory: Any, self_bias: Any = None, memory_bias: Any = None, caches: Any = None, seed: Any = None
    ) -> Any:
        return self.run(x, memory, self_bias=self_bias, memory_bias=memory_bias, caches=caches, seed=seed)

    def keys_values(self, memory: Any) -> list[tuple[Any, Any]]:
        """Each layer's keys and values of `memory` [B, S, d_model], which a search computes once."""
        return [block.cross_attention.keys_values(memory) for block in self.blocks]
