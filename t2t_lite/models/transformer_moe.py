"""The Transformer with a mixture of experts in the place of every second feed-forward network.

As in GShard (Lepikhin et al., 2020, section 2.2), with the gating and the experts of Shazeer et al. (2017).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from t2t_lite.layers.mixture_of_experts import BLOCKS, MixtureOfExperts
from t2t_lite.models.balance import Balance
from t2t_lite.models.flops import Sizes
from t2t_lite.models.layer_factory import LayerFactory, layers_in
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_moe_hparams import TransformerMoeHParams
from t2t_lite.registry import register_model


@dataclasses.dataclass(frozen=True)
class MoeFactory(LayerFactory):
    """Makes the parts of layers; the second, the fourth, ... have experts."""

    num_experts: int = 1
    experts_per_token: int = 1
    has_experts: bool = False

    def of_layer(self, number: int) -> LayerFactory:
        return dataclasses.replace(self, has_experts=number % 2 == 1)

    def feed_forward(self) -> Any:
        if not self.has_experts:
            return super().feed_forward()
        return MixtureOfExperts(self.num_experts, self.experts_per_token, self.d_ff, name="experts")


@dataclasses.dataclass(frozen=True)
class MoeSizes(Sizes):
    """What the counts depend on; the products are those that the positions need, without room left in blocks."""

    num_experts: int = 1
    experts_per_token: int = 1

    def forward_flops(self, source_lengths: Any, target_lengths: Any) -> int:
        n, k = self.num_experts, self.experts_per_token
        # Instead of one network k, and products for gates and noise.
        more = 4 * self.d_model * ((k - 1) * self.d_ff + n)
        positions = self._in_mixtures(np.asarray(source_lengths, np.int64), np.asarray(target_lengths, np.int64))
        return super().forward_flops(source_lengths, target_lengths) + int(np.sum(positions * more))

    def activation_bytes(self, rows: int, source_length: int, target_length: int, bytes_per_value: int) -> int:
        """As `Sizes`; with a copy of an expert's matrices for each block, as one GPU makes them."""
        n, k = self.num_experts, self.experts_per_token
        values = k * (2 * self.d_model + 2 * self.d_ff) * (1 + BLOCKS) // BLOCKS - 3 * self.d_ff
        more = self._in_mixtures(source_length, target_length) * (values * bytes_per_value + 10 * n * 4)
        return super().activation_bytes(rows, source_length, target_length, bytes_per_value) + rows * more

    def _in_mixtures(self, source: Any, target: Any) -> Any:
        """Positions of all layers with experts."""
        return self.num_layers // 2 * source + self._decoder_layers // 2 * target


@register_model("transformer_moe")
class TransformerMoe(Balance, Transformer):
    """A Transformer whose feed-forward networks are, in every second layer, mixtures of experts."""

    @classmethod
    def from_hparams(  # type: ignore[override]  # a recipe of its own
        cls, hparams: TransformerMoeHParams, source_vocab_size: int, target_vocab_size: int, shared: bool
    ) -> TransformerMoe:
        per_head = hparams.d_model // hparams.num_heads
        factory = MoeFactory(
            num_heads=hparams.num_heads,
            d_k=per_head,
            d_v=per_head,
            d_ff=hparams.d_ff,
            norm=hparams.norm,
            dropout=hparams.dropout,
            attention_dropout=0.0,
            relu_dropout=0.0,
            initial_weights="glorot",
            num_experts=hparams.num_experts,
            experts_per_token=hparams.experts_per_token,
        )
        with layers_in(hparams.precision):
            model = cls(
                source_vocab_size,
                target_vocab_size,
                num_layers=hparams.num_layers,
                d_model=hparams.d_model,
                factory=factory,
                shared=shared and hparams.share_embeddings,
                tied=hparams.share_embeddings,
                max_positions=1,
                window=0,
                remat=False,
            )
        model.balance_weight = hparams.balance_weight
        return model

    @property
    def cost(self) -> MoeSizes:
        experts = self.mixtures()["target"][0]
        k = experts.gating.experts_per_token
        return MoeSizes(**dataclasses.asdict(self._cost), num_experts=experts.num_experts, experts_per_token=k)

    def mixtures(self) -> dict[str, list[MixtureOfExperts]]:
        sides = {"source": self.encoder, "target": self.decoder}
        return {side: [block.feed_forward for block in stack.blocks[1::2]] for side, stack in sides.items()}
