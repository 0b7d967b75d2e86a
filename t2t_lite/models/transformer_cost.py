"""Arithmetic and memory of a Transformer, from its sizes. A multiply-add counts as 2 FLOPs; matrix products only.

Legend: S source length, T target length.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from t2t_lite.models.base import Cost


@dataclasses.dataclass(frozen=True)
class TransformerCost(Cost):
    """What the counts depend on; names as in HParams."""

    num_layers: int
    d_model: int
    d_ff: int
    num_heads: int
    d_k: int
    d_v: int
    target_vocab_size: int
    attention_window: int = 0  # r: keys counted for a query of self-attention, at most (Table 1); 0: all
    remat: bool = False  # keeps all activations of one layer at a time, of the others only the inputs
    num_decoder_layers: int = 0  # 0: num_layers
    attention_score: str = "scaled"  # an additive one keeps d_k numbers for each pair of positions
    max_relative_position: int = 0  # if not 0, each query adds keys and values of its own (Shaw et al.)

    def forward_flops(self, source_lengths: Any, target_lengths: Any) -> int:
        """FLOPs from ids to logits, with full (not causally halved) attention scores.

        Args:
            source_lengths, target_lengths: of one pair, or int arrays [pairs] to add up.
        """
        s, t = (np.asarray(lengths, np.int64) for lengths in (source_lengths, target_lengths))
        attention_width = self.num_heads * (self.d_k + self.d_v)
        projection = 2 * self.d_model * attention_width  # queries and outputs, or keys and values, of one position
        feed_forward = 4 * self.d_model * self.d_ff
        in_self = attention_width * (2 if self.max_relative_position else 1)
        encoder = s * (2 * projection + feed_forward) + 2 * s * self._keys(s) * in_self
        decoder = t * (2 * projection + feed_forward) + 2 * t * self._keys(t) * in_self
        memory = (s + t) * projection + 2 * s * t * attention_width
        layers = self.num_layers * encoder + self._decoder_layers * (decoder + memory)
        return int((layers + 2 * t * self.d_model * self.target_vocab_size).sum())

    def activation_bytes(self, rows: int, source_length: int, target_length: int, bytes_per_value: int) -> int:
        """Roughly the memory that the forward pass over some rows keeps for the backward pass.

        Counted per position: inputs and outputs of the products, of layer normalisation, dropout and ReLU; per pair of
        positions: one number in float32 and two in the dtype of computation; logits, softmax and gradient in float32.
        """
        s, t = source_length, target_length
        width = self.num_heads * (self.d_k + self.d_v)
        encoder = s * (2 * width + 10 * self.d_model + 3 * self.d_ff) * bytes_per_value
        decoder = t * (4 * width + 16 * self.d_model + 3 * self.d_ff) * bytes_per_value
        additive = self.d_k if self.attention_score == "additive" else 0
        pair = self.num_heads * (4 + (2 + additive) * bytes_per_value)
        encoder_layer = encoder + s * self._keys(s) * pair
        decoder_layer = decoder + (t * self._keys(t) + s * t) * pair
        logits = t * self.target_vocab_size * (3 * 4 + (bytes_per_value if bytes_per_value < 4 else 0))
        layers = self.num_layers * encoder_layer + self._decoder_layers * decoder_layer
        if self.remat:
            inputs = (self.num_layers * s + self._decoder_layers * t) * self.d_model * bytes_per_value
            layers = encoder_layer + decoder_layer + inputs
        return rows * (layers + logits)

    @property
    def _decoder_layers(self) -> int:
        return self.num_decoder_layers or self.num_layers

    def _keys(self, lengths: Any) -> Any:
        """Keys counted for each query of self-attention in sequences of `lengths`."""
        return np.minimum(lengths, self.attention_window) if self.attention_window else lengths
