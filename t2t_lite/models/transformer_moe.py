"""The Transformer with a mixture of experts in the place of every second feed-forward network.

As in GShard (Lepikhin et al., 2020, section 2.2), with the gating and the experts of Shazeer et al. (2017).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from t2t_lite.layers.mixture_of_experts import ExpertsSize, MixtureOfExperts
from t2t_lite.models.balance import Balance
from t2t_lite.models.layer_factory import LayerFactory
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_cost import TransformerCost
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.models.transformer_moe_hparams import TransformerMoeHParams
from t2t_lite.registry import register_model

# Fields that a Transformer has, too; its other fields are as in the paper's base model.
_AS_TRANSFORMER = (
    "num_layers",
    "d_model",
    "d_ff",
    "num_heads",
    "norm",
    "share_embeddings",
    "initial_weights",
    "dropout",
    "precision",
)


@dataclasses.dataclass(frozen=True)
class MoeFactory(LayerFactory):
    """Makes the parts of layers; the second, the fourth, ... have experts."""

    num_experts: int
    experts_per_token: int
    has_experts: bool = False

    def of_layer(self, number: int) -> LayerFactory:
        return dataclasses.replace(self, has_experts=number % 2 == 1)

    def feed_forward(self) -> Any:
        if not self.has_experts:
            return super().feed_forward()
        sizes, fan_in = (self.num_experts, self.experts_per_token, self.d_ff), self.initial_weights == "fairseq012"
        return MixtureOfExperts(*sizes, fan_in=fan_in, name="experts")


@dataclasses.dataclass(frozen=True)
class TransformerMoeCost(TransformerCost):
    """What the counts depend on; products are counted for the positions alone, not for empty rows of blocks."""

    experts: ExpertsSize = dataclasses.field(kw_only=True)

    def forward_flops(self, source_lengths: Any, target_lengths: Any) -> int:
        more = 2 * (self.experts.products - 2 * self.d_model * self.d_ff)  # instead of one network
        s, t = (np.asarray(lengths, np.int64) for lengths in (source_lengths, target_lengths))
        positions = self.num_layers // 2 * s + self._decoder_layers // 2 * t
        return super().forward_flops(source_lengths, target_lengths) + int(np.sum(positions * more))

    def activation_bytes(self, rows: int, source_length: int, target_length: int, bytes_per_value: int) -> int:
        """As `TransformerCost`; experts are computed in blocks, as under XLA."""

        def more(positions: int) -> int:
            kept = self.experts.kept_bytes(positions, bytes_per_value, in_blocks=True)
            return kept - 3 * positions * self.d_ff * bytes_per_value  # instead of one network

        in_mixtures = self.num_layers // 2 * more(rows * source_length)
        in_mixtures += self._decoder_layers // 2 * more(rows * target_length)
        return super().activation_bytes(rows, source_length, target_length, bytes_per_value) + in_mixtures


@register_model("transformer_moe")
class TransformerMoe(Balance, Transformer):
    """A Transformer whose feed-forward networks are, in every second layer, mixtures of experts."""

    @classmethod
    def from_hparams(  # type: ignore[override]  # a recipe of its own
        cls, hparams: TransformerMoeHParams, source_vocab_size: int, target_vocab_size: int, shared: bool
    ) -> TransformerMoe:
        plain = TransformerHParams(**{name: getattr(hparams, name) for name in _AS_TRANSFORMER})
        experts = {"num_experts": hparams.num_experts, "experts_per_token": hparams.experts_per_token}
        factory = MoeFactory.from_hparams(plain, **experts)
        model = cls.with_factory(factory, plain, source_vocab_size, target_vocab_size, shared)
        model.balance_weight, model.balance_groups = hparams.balance_weight, hparams.balance_groups
        return model

    @property
    def cost(self) -> TransformerMoeCost:
        return TransformerMoeCost(**dataclasses.asdict(self._cost), experts=self.mixtures()["target"][0].size)

    def mixtures(self) -> dict[str, list[MixtureOfExperts]]:
        sides = {"source": self.encoder, "target": self.decoder}
        return {side: [block.feed_forward for block in stack.blocks[1::2]] for side, stack in sides.items()}
