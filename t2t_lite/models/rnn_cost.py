"""Arithmetic and memory of `rnn`, from its sizes.

Legend: S source length, T target length.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from t2t_lite.models import base


@dataclasses.dataclass(frozen=True)
class RnnCost(base.Cost):
    """What the counts depend on; names as of `Rnn`."""

    num_layers: int
    units: int
    target_vocab_size: int
    score: str
    input_feeding: bool

    def forward_flops(self, source_lengths: Any, target_lengths: Any) -> int:
        """As `base.Cost`."""
        s, t = (np.asarray(lengths, np.int64) for lengths in (source_lengths, target_lengths))
        square = 2 * self.units**2  # a matrix [units, units] times a vector
        layers = self.num_layers * 8 * square  # W x and U h, to four gates each
        keys = square
        attention = 2 * square + square * (self.score == "additive")  # W_c, and W q
        feed = 4 * square * self.input_feeding
        softmax = 2 * self.units * self.target_vocab_size
        pairs = 2 * 2 * self.units * s * t  # scores and contexts
        return int(np.sum(s * (layers + keys) + t * (layers + feed + attention + softmax) + pairs))

    def activation_bytes(self, rows: int, source_length: int, target_length: int, bytes_per_value: int) -> int:
        """As `base.Cost`.

        Counted per position: inputs and outputs of the products, in the precision, and gates and states in float32; per
        pair of positions: scores and weights, and with "additive" a vector of float32; logits, softmax and gradient.
        """
        s, t = source_length, target_length
        layer = self.units * (6 * bytes_per_value + 14 * 4)
        decoder = self.units * (6 * bytes_per_value + 4 * 4) + self.input_feeding * 5 * self.units * bytes_per_value
        pair = 2 * 4 + 2 * bytes_per_value + self.units * bytes_per_value * (self.score == "additive")
        logits = self.target_vocab_size * (3 * 4 + (bytes_per_value if bytes_per_value < 4 else 0))
        return rows * (self.num_layers * (s + t) * layer + t * (decoder + logits) + s * t * pair)
