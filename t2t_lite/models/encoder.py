"""The encoder stack (section 3.1, left half of Figure 1)."""

from __future__ import annotations

from typing import Any

import keras

from t2t_lite.layers.dropout import fold_in
from t2t_lite.models.stack import Block, Experts, Stack
from t2t_lite.models.transformer_hparams import TransformerHParams


@keras.saving.register_keras_serializable("t2t_lite")
class EncoderLayer(Block):
    """Self-attention, then the feed-forward network, each in a residual connection.

    Args:
        hparams, experts: as for `Block`.

    Call arguments:
        x: [B, S, d_model].
        bias: float32, broadcastable to [B, H, S, S], or a `Window`.
        seed: int32 [3], or None for inference.

    Returns:
        [B, S, d_model].
    """

    side = "encoder"

    def __init__(self, hparams: TransformerHParams, experts: Experts | None = None, **kwargs: Any) -> None:
        super().__init__(hparams, experts, **kwargs)
        self.self_attention = self.make_self_attention()
        self.feed_forward = self.make_feed_forward()
        self.self_attention_residual = self.make_residual("around_attention")
        self.feed_forward_residual = self.make_residual("around_feed_forward")

    def call(self, x: Any, bias: Any = None, seed: Any = None) -> Any:
        x = self.self_attention_residual(
            x,
            sublayer=lambda y: self.self_attention(y, bias=bias, seed=fold_in(seed, 0)),
            seed=fold_in(seed, 1),
        )
        return self.feed_forward_residual(
            x, sublayer=lambda y: self.feed_forward(y, seed=fold_in(seed, 2)), seed=fold_in(seed, 3)
        )


@keras.saving.register_keras_serializable("t2t_lite")
class Encoder(Stack):
    """N encoder layers. Call arguments and result: as `EncoderLayer`."""

    layer, side = EncoderLayer, EncoderLayer.side

    def call(self, x: Any, bias: Any = None, seed: Any = None) -> Any:
        return self.run(x, bias=bias, seed=seed)
