"""The model group of the recipes of `transformer_moe`.

Fields that all Transformers have default to the paper's base model.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

from t2t_lite.config import HParams, field
from t2t_lite.errors import UsageError
from t2t_lite.fields import FRACTION


@dataclasses.dataclass(frozen=True)
class TransformerMoeHParams(HParams):
    """A recipe of the Transformer with mixtures of experts.

    Raises:
        UsageError: also sizes that do not go together.
    """

    model = "transformer_moe"

    num_layers: int = field(6, "N, of the encoder and of the decoder; every second one has experts", (2, 256))
    d_model: int = field(512, "size of embeddings and of every sub-layer's output", (1, 65_536))
    d_ff: int = field(2048, "inner size of the feed-forward networks, and of each expert", (1, 1_000_000))
    num_heads: int = field(8, "h, of each attention", (1, 1024))
    num_experts: int = field(8, "n, of each mixture", (1, 4096))
    experts_per_token: int = field(2, "k, experts that a position is given to (GShard: 2)", (1, 4096))
    balance_weight: float = field(
        0.01, "w of the importance loss and of the load loss (Shazeer et al., 2017)", (0, 1e6)
    )
    balance_groups: int = field(8, "groups of consecutive rows, each with balance losses of its own", (1, 1024))
    norm: Literal["post", "pre"] = field("post", "LayerNorm(x + Sublayer(x)) or x + Sublayer(LayerNorm(x))")
    share_embeddings: bool = field(True, "one matrix for source, target and softmax")
    initial_weights: Literal["glorot", "fairseq09", "fairseq012"] = field(
        "glorot", "see docs/multi30k.md; fairseq012 is for experts as for feed-forward networks"
    )
    dropout: float = field(0.1, "P_drop: sub-layer outputs and the sums of embeddings and positions", FRACTION)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_experts(self.num_experts, self.experts_per_token)
        if self.d_model % 2 or self.d_model % self.num_heads:
            raise UsageError(
                f"hparams: d_model={self.d_model} must be even and a multiple of num_heads={self.num_heads}; choose "
                "another number of heads or another size."
            )

    def parameters(self, vocab_size: int = 0) -> int:
        """A lower bound on the parameters: biases, norms, gates, and all but one embedding, are not counted."""
        mixtures = self.num_layers // 2
        networks = 2 * (self.num_layers - mixtures + mixtures * self.num_experts)
        attention = 3 * self.num_layers * 4 * self.d_model**2
        return attention + networks * 2 * self.d_model * self.d_ff + vocab_size * self.d_model


def check_experts(num_experts: int, experts_per_token: int) -> None:
    """Raises UsageError if a position would be given to more experts than there are."""
    if experts_per_token > num_experts:
        raise UsageError(
            f"hparams: experts_per_token={experts_per_token} is more than num_experts={num_experts}: a position cannot "
            "be given to more experts than there are. Lower the first or raise the second."
        )
