"""The Transformer with a mixture of experts in the place of every second feed-forward network.

As in GShard (Lepikhin et al., 2020, section 2.2), with the gating and the experts of Shazeer et al. (2017).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from t2t_lite import config
from t2t_lite.layers.mixture_of_experts import ExpertsSize, MixtureOfExperts
from t2t_lite.models.balance import Balance
from t2t_lite.models.recipe_layer import to_config
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_cost import TransformerCost
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.models.transformer_moe_hparams import TransformerMoeHParams
from t2t_lite.registry import register_model


@dataclasses.dataclass(frozen=True)
class TransformerMoeCost(TransformerCost):
    """What the counts depend on; products are counted for the positions alone, not for empty rows of blocks."""

    experts: ExpertsSize = dataclasses.field(kw_only=True)

    def forward_flops(self, source_lengths: Any, target_lengths: Any) -> int:
        more = 2 * (self.experts.products - 2 * self.hparams.d_model * self.hparams.d_ff)  # instead of one network
        s, t = (np.asarray(lengths, np.int64) for lengths in (source_lengths, target_lengths))
        positions = self.hparams.num_layers // 2 * (s + t)
        return super().forward_flops(source_lengths, target_lengths) + int(np.sum(positions * more))

    def activation_bytes(self, rows: int, source_length: int, target_length: int, bytes_per_value: int) -> int:
        """As `TransformerCost`; experts are computed in blocks, as under XLA."""

        def more(positions: int) -> int:
            kept = self.experts.kept_bytes(positions, bytes_per_value, in_blocks=True)
            return kept - 3 * positions * self.hparams.d_ff * bytes_per_value  # instead of one network

        mixtures = self.hparams.num_layers // 2  # of each side
        in_mixtures = mixtures * (more(rows * source_length) + more(rows * target_length))
        return super().activation_bytes(rows, source_length, target_length, bytes_per_value) + in_mixtures


@register_model("transformer_moe")
class TransformerMoe(Balance, Transformer):
    """A Transformer whose feed-forward networks are, in every second layer, mixtures of experts."""

    def __init__(
        self, hparams: TransformerMoeHParams, source_vocab_size: int, target_vocab_size: int, shared: bool
    ) -> None:
        plain, _ = config.convert(hparams, TransformerHParams)  # what is no field of it is as in the paper's base model
        experts = hparams.num_experts, hparams.experts_per_token
        super().__init__(plain, source_vocab_size, target_vocab_size, shared, experts)
        self.recipe = hparams
        self.balance_weight, self.balance_groups = hparams.balance_weight, hparams.balance_groups

    @property
    def cost(self) -> TransformerMoeCost:
        return TransformerMoeCost(self.hparams, self.softmax.vocab_size, experts=self.mixtures()["target"][0].size)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **to_config(self.recipe)}

    def mixtures(self) -> dict[str, list[MixtureOfExperts]]:
        sides = {"source": self.encoder, "target": self.decoder}
        return {side: [block.feed_forward for block in stack.blocks[1::2]] for side, stack in sides.items()}
