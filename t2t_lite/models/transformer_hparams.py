"""The model group of the Transformer's recipes; the defaults are the paper's base model."""

from __future__ import annotations

import dataclasses
from typing import Literal

from t2t_lite.config import HParams, field
from t2t_lite.errors import UsageError
from t2t_lite.fields import FRACTION


@dataclasses.dataclass(frozen=True)
class TransformerHParams(HParams):
    """A recipe of the Transformer (section 3, Table 3).

    Raises:
        UsageError: also d_model that is odd, or no multiple of num_heads where d_k or d_v follows from both.
    """

    model = "transformer"

    num_layers: int = field(6, "N, of the encoder and of the decoder", (1, 256))
    d_model: int = field(512, "size of embeddings and of every sub-layer's output (section 3.1)", (1, 65_536))
    d_ff: int = field(2048, "inner size of the feed-forward networks (section 3.3)", (1, 1_000_000))
    num_heads: int = field(8, "h, of each attention (section 3.2.2)", (1, 1024))
    d_k: int = field(0, "size of a head's keys and queries; 0: d_model / num_heads (section 3.2.2)", (0, 65_536))
    d_v: int = field(0, "size of a head's values; 0: d_model / num_heads", (0, 65_536))
    norm: Literal["post", "pre"] = field(
        "post", "LayerNorm(x + Sublayer(x)) (section 3.1) or x + Sublayer(LayerNorm(x))"
    )
    positions: Literal["sinusoidal", "learned"] = field(
        "sinusoidal", "how places are encoded (section 3.5, Table 3 row (E))"
    )
    max_positions: int = field(1024, "rows of the table of learned positions", (1, 10_000_000))
    attention_window: int = field(
        0, "r of Table 1: self-attention sees r / 2 positions to each side; 0: all of them", (0, 10_000_000)
    )
    share_embeddings: bool = field(True, "one matrix for source, target and softmax (section 3.4)")
    initial_weights: Literal["glorot", "fairseq09", "fairseq012"] = field(
        "glorot", "see docs/multi30k.md; not in the paper"
    )
    dropout: float = field(
        0.1, "P_drop: sub-layer outputs and the sums of embeddings and positions (section 5.4)", FRACTION
    )
    attention_dropout: float = field(0.0, "on attention weights; not in the paper", FRACTION)
    relu_dropout: float = field(0.0, "inside the feed-forward network; not in the paper", FRACTION)
    remat: bool = field(
        False,
        "keep only the inputs of layers, and compute the rest again: less memory, a quarter more time",
        resume="always",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.d_model % 2:
            raise UsageError(
                f"hparams: d_model={self.d_model} must be even: sines and cosines alternate (section 3.5)."
            )
        if not (self.d_k and self.d_v) and self.d_model % self.num_heads:
            raise UsageError(
                f"hparams: d_model={self.d_model} is not a multiple of num_heads={self.num_heads}; "
                "choose another number of heads or give d_k and d_v."
            )

    def parameters(self, vocab_size: int = 0) -> int:
        """Parameters, at least: biases and norms, and all but one embedding, are not counted."""
        per_head = self.d_model // self.num_heads
        attention = 2 * self.d_model * self.num_heads * ((self.d_k or per_head) + (self.d_v or per_head))
        positions = 2 * self.max_positions * self.d_model if self.positions == "learned" else 0
        layer = 3 * attention + 4 * self.d_model * self.d_ff
        return self.num_layers * layer + positions + vocab_size * self.d_model
