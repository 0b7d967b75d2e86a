"""Arithmetic and memory of `rnn`, from its sizes.

Legend: S source length, T target length.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from t2t_lite.layers.lstm import LstmSize
from t2t_lite.layers.mixture_of_experts import ExpertsSize
from t2t_lite.models import base


@dataclasses.dataclass(frozen=True)
class RnnCost(base.Cost):
    """What the counts depend on.

    Args:
        encoder, decoder: sizes of each LSTM; what is fed does not count as an input here.
        source_matrices, target_matrices: sizes of the other matrices that a symbol's vectors are multiplied by.
        target_vocab_size: of the logits.
        additive: each pair of positions has a vector of its own.
        input_feeding: what attention gives is fed to the bottom layer.
        experts: sizes of the mixture in the encoder and of the one in the decoder; XLA does not compute them.
    """

    encoder: Sequence[LstmSize]
    decoder: Sequence[LstmSize]
    source_matrices: int
    target_matrices: int
    target_vocab_size: int
    additive: bool
    input_feeding: bool
    experts: ExpertsSize | None = None

    def forward_flops(self, source_lengths: Any, target_lengths: Any) -> int:
        s, t = (np.asarray(lengths, np.int64) for lengths in (source_lengths, target_lengths))
        source = sum(size.products for size in self.encoder) + self.source_matrices
        target = sum(size.products for size in self.decoder) + self.target_matrices
        if self.experts:
            source, target = source + self.experts.products, target + self.experts.products
        pairs = 2 * self._width * s * t  # scores and contexts
        return int(2 * np.sum(s * source + t * target + pairs))

    def activation_bytes(self, rows: int, source_length: int, target_length: int, bytes_per_value: int) -> int:
        """As `base.Cost`.

        Counted per position: inputs and outputs of the products, in the precision, and gates and states in float32; per
        pair of positions: scores and weights, and with `additive` a vector; logits, softmax and gradient.
        """
        s, t, units = source_length, target_length, self._width

        def layers(sizes: Sequence[LstmSize]) -> int:
            return sum(
                (size.inputs + 2 * size.projection) * bytes_per_value + size.units * (5 * bytes_per_value + 14 * 4)
                for size in sizes
            )

        attention = units * (6 * bytes_per_value + 4 * 4) + self.input_feeding * 5 * units * bytes_per_value
        pair = 2 * 4 + 2 * bytes_per_value + units * bytes_per_value * self.additive
        logits = self.target_vocab_size * (3 * 4 + (bytes_per_value if bytes_per_value < 4 else 0))
        experts = self.experts.kept_bytes(s + t, bytes_per_value, in_blocks=False) if self.experts else 0
        return rows * (
            s * layers(self.encoder) + t * (layers(self.decoder) + attention + logits) + s * t * pair + experts
        )

    @property
    def _width(self) -> int:
        """Width of what attention reads."""
        return self.decoder[0].projection or self.decoder[0].units
