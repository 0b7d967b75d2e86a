"""The model group of the recipes of `moe`; the defaults are those of Shazeer et al. (2017), appendix E."""

from __future__ import annotations

import dataclasses

from t2t_lite.config import HParams, field
from t2t_lite.fields import FRACTION
from t2t_lite.models.transformer_moe_hparams import check_experts


@dataclasses.dataclass(frozen=True)
class MoeHParams(HParams):
    """A recipe of the LSTM encoder-decoder with mixtures of experts.

    Raises:
        UsageError: also more experts for a position than there are.
    """

    model = "moe"

    d_model: int = field(512, "size of embeddings, and of every layer's inputs and outputs", (1, 65_536))
    cells: int = field(2048, "size of each LSTM's cell, whose output is projected to d_model", (1, 65_536))
    d_ff: int = field(2048, "inner size of each expert", (1, 1_000_000))
    num_experts: int = field(32, "n, of each mixture", (1, 4096))
    experts_per_token: int = field(4, "k, experts that a position is given to", (1, 4096))
    balance_weight: float = field(0.01, "w of the importance loss and of the load loss", (0, 1e6))
    balance_groups: int = field(8, "groups of consecutive rows, each with balance losses of its own", (1, 1024))
    share_embeddings: bool = field(True, "one matrix for source, target and softmax")
    dropout: float = field(0.4, "of embeddings and of the outputs of LSTM layers and mixtures", FRACTION)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_experts(self.num_experts, self.experts_per_token)

    def parameters(self, vocab_size: int = 0) -> int:
        """A lower bound on the parameters: biases, gates, attention, and all but one embedding, are not counted."""
        lstms = 5 * (8 * self.cells * self.d_model + self.cells * self.d_model)
        experts = 2 * self.num_experts * 2 * self.d_model * self.d_ff
        return lstms + experts + vocab_size * self.d_model
