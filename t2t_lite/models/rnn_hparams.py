"""The model group of the recipes of `rnn`."""

from __future__ import annotations

import dataclasses
from typing import Literal

from t2t_lite.config import HParams, field
from t2t_lite.errors import UsageError
from t2t_lite.fields import FRACTION


@dataclasses.dataclass(frozen=True)
class RnnHParams(HParams):
    """A recipe of the LSTM encoder-decoder with attention (Luong et al., 2015; Wu et al., 2016)."""

    model = "rnn"

    num_layers: int = field(6, "LSTM layers, of the encoder and of the decoder", (1, 256))
    d_model: int = field(512, "size of embeddings, states and attentional vectors", (1, 65_536))
    encoder: Literal["uni", "reversed", "bi", "gnmt", "interleaved"] = field(
        "uni", "reads forwards, backwards, both ways (its states are twice as long), as GNMT, or by turns"
    )
    wiring: Literal["top", "attention_wrapper", "vinyals", "gnmt", "gnmt_v2"] = field(
        "top", "what attention's query is, what is made of its context and where that goes; models/rnn_decoder.py"
    )
    attention_score: Literal["dot", "general", "additive", "normed_additive", "product"] = field(
        "general",
        "q . U m (Luong), v . tanh(W q + U m) (Bahdanau), ...; layers/rnn_attention.py",
    )
    input_feeding: bool = field(True, "what attention gives is an input of the next position")
    softmax_bias: bool = field(True, "the softmax layer has a bias")
    share_embeddings: bool = field(True, "one matrix for source, target and softmax")
    dropout: float = field(0.1, "share of each LSTM layer's input that training drops", FRACTION)

    def __post_init__(self) -> None:
        super().__post_init__()
        gnmt = self.wiring in ("gnmt", "gnmt_v2")
        if self.num_layers < 2 and (gnmt or self.encoder == "gnmt"):
            raise UsageError(
                f"hparams: encoder={self.encoder}, wiring={self.wiring} needs 2 layers or more, as the first differs "
                f"from the others; num_layers={self.num_layers}."
            )
        if self.share_embeddings and (self.wiring == "vinyals" or (gnmt and self.encoder == "bi")):
            raise UsageError(
                f"hparams: with encoder={self.encoder}, wiring={self.wiring} the softmax layer is given 2 d_model "
                "numbers, so that it cannot share the embeddings; add share_embeddings=false."
            )

    def parameters(self, vocab_size: int = 0) -> int:
        """A lower bound on the parameters: biases, attention, and all but one embedding, are not counted."""
        return 2 * self.num_layers * 8 * self.d_model**2 + vocab_size * self.d_model
