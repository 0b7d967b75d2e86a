"""The model group of the Transformer's recipes; the defaults are the paper's base model."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Literal

from t2t_lite.config import HParams, field
from t2t_lite.errors import UsageError
from t2t_lite.fields import FRACTION


@dataclasses.dataclass(frozen=True)
class TransformerHParams(HParams):
    """A recipe of the Transformer (section 3, Table 3).

    Raises:
        UsageError: also if d_model is odd, or is no multiple of num_heads while d_k or d_v is 0.
    """

    model = "transformer"

    num_layers: int = field(6, "N, of the encoder and of the decoder", (1, 256))
    d_model: int = field(512, "size of embeddings and of every sub-layer's output (section 3.1)", (1, 65_536))
    d_ff: int = field(2048, "inner size of the feed-forward networks (section 3.3)", (1, 1_000_000))
    num_heads: int = field(8, "h, of each attention (section 3.2.2)", (1, 1024))
    d_k: int = field(0, "size of a head's keys and queries; 0: d_model / num_heads (section 3.2.2)", (0, 65_536))
    d_v: int = field(0, "size of a head's values; 0: d_model / num_heads", (0, 65_536))
    num_decoder_layers: int = field(0, "layers of the decoder, if not num_layers; 0: num_layers", (0, 256))
    norm: Literal["post", "pre", "deep"] = field(
        "post",
        "LayerNorm(x + Sublayer(x)) (section 3.1), x + Sublayer(LayerNorm(x)), or DeepNorm, LayerNorm(alpha x + "
        "Sublayer(x)) with smaller initial weights, for many layers (Wang et al., 2022)",
    )
    norm_epsilon: float = field(
        1e-6, "added to variances; tensor2tensor's, as the paper has none. OpenNMT-tf: 0.001", (1e-12, 1.0)
    )
    positions: Literal["sinusoidal", "learned", "tensor2tensor", "opennmt", "rotary", "none"] = field(
        "sinusoidal",
        "how places are encoded (section 3.5, Table 3 row (E)); tensor2tensor: sines, then cosines; opennmt: from 1; "
        "rotary: in self-attention (Su et al., 2021)",
    )
    max_positions: int = field(1024, "rows of the table of learned positions", (1, 10_000_000))
    max_relative_position: int = field(
        0, "self-attention knows distances up to this one (Shaw et al., 2018); 0: none", (0, 10_000)
    )
    source_vector: bool = field(False, "a vector added at all places of the source: tensor2tensor's target space")
    source_end: bool = field(True, "the encoder sees the end symbol; in OpenNMT-tf it does not, unless asked to")
    start_vector: bool = field(False, "the decoder starts from a vector: the <s> of OpenNMT-tf; else from zeros")
    output_bias: bool = field(False, "on the logits, as OpenNMT-tf has it; the paper has none")
    attention_biases: bool = field(
        False, "on queries and outputs of attention, as OpenNMT-tf has them and tensor2tensor had in 2017"
    )
    attention_score: Literal["scaled", "dot", "additive"] = field(
        "scaled", "q.k / sqrt(d_k), q.k, or v.tanh(q + k) as Bahdanau et al. (section 3.2.1)"
    )
    attention_window: int = field(
        0, "r of Table 1: self-attention sees r / 2 positions to each side; 0: all of them", (0, 10_000_000)
    )
    ffn: Literal["plain", "gated"] = field(
        "plain", "f(x W + b) W' + b', or (f(x W) * x V) W', which is SwiGLU if f is swish (Shazeer, 2020)"
    )
    activation: Literal["relu", "swish", "gelu"] = field(
        "relu", "f in the feed-forward networks: max(0, x) (section 3.3), x sigmoid(x), or x Phi(x)"
    )
    share_embeddings: bool = field(True, "one matrix for source, target and softmax (section 3.4)")
    share_between_vocabularies: bool = field(
        False, "source and target share it, too, if each has a vocabulary of its own, of as many pieces; imports set it"
    )
    initial_weights: Literal["glorot", "fairseq09", "fairseq012"] = field(
        "glorot", "see docs/multi30k.md; not in the paper"
    )
    dropout: float = field(
        0.1, "P_drop: sub-layer outputs and the sums of embeddings and positions (section 5.4)", FRACTION
    )
    attention_dropout: float = field(0.0, "on attention weights; not in the paper", FRACTION)
    relu_dropout: float = field(0.0, "inside the feed-forward network; not in the paper", FRACTION)
    alignment_layer: int = field(
        0,
        "the decoder's layer, from 1, whose first head over the source is an alignment; 0: none, or the last one if "
        "guided_alignment is set",
        (0, 256),
    )
    guided_alignment: float = field(
        0.0,
        "weight of the loss by which that head learns given alignments (Garg et al., 2019; 0.1 in Marian); 0: there is "
        "no such loss",
        (0.0, 1000.0),
    )
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
        if self.share_between_vocabularies and not self.share_embeddings:
            raise UsageError(
                "hparams: share_between_vocabularies=true needs share_embeddings=true, which is what it extends."
            )
        if self.alignment_layer > self.decoder_layers:
            raise UsageError(
                f"hparams: alignment_layer={self.alignment_layer}: the decoder has {self.decoder_layers} layers, "
                "counted from 1."
            )
        if self.guided_alignment and self.remat:
            raise UsageError(
                f"hparams: guided_alignment={self.guided_alignment} and remat=true exclude each other: attention that "
                "is computed again has no gradient of its own. Leave one of them out."
            )
        if self.guided_alignment and self.bpe_dropout:
            raise UsageError(
                f"hparams: guided_alignment={self.guided_alignment} and bpe_dropout={self.bpe_dropout} exclude each "
                "other: the links of the data are between the pieces that are cut without dropout. Leave one of them "
                "out."
            )
        if self.attention_window and self.max_relative_position:
            raise UsageError(
                f"hparams: attention_window={self.attention_window} and max_relative_position="
                f"{self.max_relative_position} exclude each other: restricted self-attention knows no relative "
                "positions. Leave one of them at 0."
            )
        if self.attention_score == "additive" and (self.attention_window or self.max_relative_position):
            name = "attention_window" if self.attention_window else "max_relative_position"
            raise UsageError(
                f"hparams: attention_score=additive and {name}={getattr(self, name)} exclude each other: additive "
                f"scores are computed for all pairs of positions. Leave {name} at 0, or take attention_score=dot."
            )
        if self.positions == "rotary" and (self.max_relative_position or self.attention_score == "additive"):
            name = "max_relative_position" if self.max_relative_position else "attention_score"
            raise UsageError(
                f"hparams: positions=rotary and {name}={getattr(self, name)} exclude each other: products of "
                f"queries and keys tell how far apart they are already. Leave {name} out, or take other positions."
            )
        if self.norm == "deep" and self.initial_weights != "glorot":
            raise UsageError(
                f"hparams: norm=deep and initial_weights={self.initial_weights} exclude each other: DeepNorm has "
                "initial weights of its own. Add initial_weights=glorot, from which it makes them."
            )
        if not (self.d_k and self.d_v) and self.d_model % self.num_heads:
            raise UsageError(
                f"hparams: d_model={self.d_model} is not a multiple of num_heads={self.num_heads}; "
                "choose another number of heads or give d_k and d_v."
            )
        if self.positions == "rotary" and self.head_sizes[0] % 2:
            raise UsageError(
                f"hparams: positions=rotary turns pairs of a head's numbers, and d_k={self.head_sizes[0]} is odd. Give "
                "an even d_k, or take other positions."
            )

    def check_asked(self, names: Collection[str]) -> None:
        """As `HParams.check_asked`; a whole recipe, with the default, may be given."""
        super().check_asked(names)
        usual = type(self).max_positions
        if "max_positions" in names and self.positions != "learned" and self.max_positions != usual:
            raise UsageError(
                f"hparams: max_positions={self.max_positions} is for learned positions, and has no effect with "
                f"positions={self.positions}. Add positions=learned, or leave it out: other positions have no limit."
            )

    @property
    def head_sizes(self) -> tuple[int, int]:
        """Sizes of a head's keys and values."""
        per_head = self.d_model // self.num_heads
        return self.d_k or per_head, self.d_v or per_head

    @property
    def decoder_layers(self) -> int:
        """Layers of the decoder."""
        return self.num_decoder_layers or self.num_layers

    @property
    def deep_norm(self) -> dict[str, tuple[float, float]]:
        """alpha and beta of DeepNorm for N layers in the encoder and M in the decoder; 1 unless norm is "deep".

        Source: Wang et al. (2022), "DeepNet: Scaling Transformers to 1,000 Layers", arXiv 2203.00555, Figure 2.
        """
        if self.norm != "deep":
            return dict.fromkeys(("encoder", "decoder"), (1.0, 1.0))
        n, m = self.num_layers, self.decoder_layers
        depth = float(n**4 * m) ** (1 / 16)
        return {"encoder": (0.81 * depth, 0.87 / depth), "decoder": ((3 * m) ** 0.25, (12 * m) ** -0.25)}

    @property
    def aligning_layer(self) -> int:
        """The decoder's layer whose first head is an alignment, from 1; 0: none."""
        return self.alignment_layer or (self.decoder_layers if self.guided_alignment else 0)

    @property
    def feed_forward_matrices(self) -> int:
        """How many matrices of d_model x d_ff a feed-forward network has."""
        return 3 if self.ffn == "gated" else 2

    def parameters(self, vocab_size: int = 0) -> int:
        """A lower bound on the parameters: biases, norms, and all but one embedding, are not counted."""
        attention = 2 * self.d_model * self.num_heads * sum(self.head_sizes)
        positions = 2 * self.max_positions * self.d_model if self.positions == "learned" else 0
        feed_forward = self.feed_forward_matrices * self.d_model * self.d_ff
        encoder = self.num_layers * (attention + feed_forward)
        decoder = self.decoder_layers * (2 * attention + feed_forward)
        return encoder + decoder + positions + vocab_size * self.d_model
