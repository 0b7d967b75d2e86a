"""The translation model of Shazeer et al. (2017), appendix E: LSTM layers and flat mixtures of experts."""

from __future__ import annotations

import dataclasses

from t2t_lite.layers.mixture_of_experts import MixtureOfExperts
from t2t_lite.models.balance import Balance
from t2t_lite.models.base import policy_of
from t2t_lite.models.moe_hparams import MoeHParams
from t2t_lite.models.moe_stacks import MoeDecoder, MoeEncoder
from t2t_lite.models.rnn import Rnn
from t2t_lite.models.rnn_cost import RnnCost
from t2t_lite.registry import register_model


@register_model("moe")
class Moe(Balance, Rnn):
    """3 LSTM layers that read and 2 that write, with a mixture of experts on each side.

    The decoder begins with the states that the encoder's last two layers end with.
    """

    @classmethod
    def from_hparams(  # type: ignore[override]  # a recipe of its own
        cls, hparams: MoeHParams, source_vocab_size: int, target_vocab_size: int, shared: bool
    ) -> Moe:
        policy = policy_of(hparams.precision)
        sizes = hparams.d_model, hparams.cells, (hparams.num_experts, hparams.experts_per_token, hparams.d_ff)
        model = cls(
            hparams,
            source_vocab_size,
            target_vocab_size,
            shared,
            encoder=MoeEncoder(*sizes, hparams.dropout, dtype=policy, name="encoder"),
            decoder=MoeDecoder(*sizes, hparams.dropout, dtype=policy, name="decoder"),
        )
        model.balance_weight, model.balance_groups = hparams.balance_weight, hparams.balance_groups
        return model

    @property
    def cost(self) -> RnnCost:
        return dataclasses.replace(super().cost, experts=self.encoder.experts.size)

    def mixtures(self) -> dict[str, list[MixtureOfExperts]]:
        return {"source": [self.encoder.experts], "target": [self.decoder.experts]}
