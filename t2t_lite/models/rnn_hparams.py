"""The model group of the recipes of `rnn`."""

from __future__ import annotations

import dataclasses
from typing import Literal

from t2t_lite.config import HParams, field
from t2t_lite.fields import FRACTION


@dataclasses.dataclass(frozen=True)
class RnnHParams(HParams):
    """A recipe of the LSTM encoder-decoder with attention (Luong et al., 2015)."""

    model = "rnn"

    num_layers: int = field(6, "LSTM layers, of the encoder and of the decoder", (1, 256))
    d_model: int = field(512, "size of embeddings, states and attentional vectors", (1, 65_536))
    attention_score: Literal["general", "additive"] = field(
        "general", "q . U m (Luong) or v . tanh(W q + U m) (Bahdanau)"
    )
    input_feeding: bool = field(True, "each attentional vector is an input of the next position")
    share_embeddings: bool = field(True, "one matrix for source, target and softmax")
    dropout: float = field(0.1, "share of each LSTM layer's input that training drops", FRACTION)

    def parameters(self, vocab_size: int = 0) -> int:
        """Parameters, at least: biases, attention, and all but one embedding, are not counted."""
        return 2 * self.num_layers * 8 * self.d_model**2 + vocab_size * self.d_model
