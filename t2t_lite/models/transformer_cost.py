"""Arithmetic and memory of a Transformer, from its sizes. A multiply-add counts as 2 FLOPs; matrix products only.

Legend: S source length, T target length.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from t2t_lite.models.base import Cost
from t2t_lite.models.transformer_hparams import TransformerHParams


@dataclasses.dataclass(frozen=True)
class TransformerCost(Cost):
    """What the counts depend on."""

    hparams: TransformerHParams
    target_vocab_size: int

    def forward_flops(self, source_lengths: Any, target_lengths: Any) -> int:
        """As `Cost.forward_flops`, with full (not causally halved) attention scores."""
        s, t = (np.asarray(lengths, np.int64) for lengths in (source_lengths, target_lengths))
        hparams = self.hparams
        attention_width = hparams.num_heads * sum(hparams.head_sizes)
        projection = 2 * hparams.d_model * attention_width  # queries and outputs, or keys and values, of one position
        feed_forward = 2 * hparams.feed_forward_matrices * hparams.d_model * hparams.d_ff
        # Each query may add keys and values of its own (Shaw et al.).
        in_self = attention_width * (2 if hparams.max_relative_position else 1)
        encoder = s * (2 * projection + feed_forward) + 2 * s * self._keys(s) * in_self
        decoder = t * (2 * projection + feed_forward) + 2 * t * self._keys(t) * in_self
        memory = (s + t) * projection + 2 * s * t * attention_width
        layers = hparams.num_layers * encoder + hparams.decoder_layers * (decoder + memory)
        return int((layers + 2 * t * hparams.d_model * self.target_vocab_size).sum())

    def activation_bytes(self, rows: int, source_length: int, target_length: int, bytes_per_value: int) -> int:
        """Roughly the memory that the forward pass over some rows keeps for the backward pass.

        Counted per position: inputs and outputs of the products, of layer normalisation, dropout and ReLU; per pair of
        positions: one number in float32 and two in the dtype of computation; logits, softmax and gradient in float32.
        """
        s, t, hparams = source_length, target_length, self.hparams
        width = hparams.num_heads * sum(hparams.head_sizes)
        feed_forward = (2 * hparams.feed_forward_matrices - 1) * hparams.d_ff
        encoder = s * (2 * width + 10 * hparams.d_model + feed_forward) * bytes_per_value
        decoder = t * (4 * width + 16 * hparams.d_model + feed_forward) * bytes_per_value
        additive = hparams.head_sizes[0] if hparams.attention_score == "additive" else 0  # for each pair of positions
        pair = hparams.num_heads * (4 + (2 + additive) * bytes_per_value)
        encoder_layer = encoder + s * self._keys(s) * pair
        decoder_layer = decoder + (t * self._keys(t) + s * t) * pair
        logits = t * self.target_vocab_size * (3 * 4 + (bytes_per_value if bytes_per_value < 4 else 0))
        layers = hparams.num_layers * encoder_layer + hparams.decoder_layers * decoder_layer
        if hparams.remat:  # keeps all of one layer at a time, of the others only the inputs
            inputs = (hparams.num_layers * s + hparams.decoder_layers * t) * hparams.d_model * bytes_per_value
            layers = encoder_layer + decoder_layer + inputs
        return rows * (layers + logits)

    def _keys(self, lengths: Any) -> Any:
        """Keys counted for each query of self-attention in sequences of `lengths`; at most r in a window (Table 1)."""
        window = self.hparams.attention_window
        return np.minimum(lengths, window) if window else lengths
