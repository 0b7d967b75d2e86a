"""The cost of a model that does the same for each symbol, such as a recurrent or a convolutional one."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from t2t_lite.models import base


@dataclasses.dataclass(frozen=True)
class CostPerSymbol(base.Cost):
    """FLOPs a s + b t + c s t, of s source and t target symbols; values kept for the backward pass, likewise.

    Args:
        source, target, pair: a, b and c; a multiply-add counts as 2.
        source_values, target_values: numbers that a symbol's forward pass keeps.
    """

    source: int
    target: int
    pair: int = 0
    source_values: int = 0
    target_values: int = 0

    def forward_flops(self, source_lengths: Any, target_lengths: Any) -> int:
        s, t = (np.asarray(lengths, np.int64) for lengths in (source_lengths, target_lengths))
        return int(np.sum(self.source * s + self.target * t + self.pair * s * t))

    def activation_bytes(self, rows: int, source_length: int, target_length: int, bytes_per_value: int) -> int:
        values = self.source_values * source_length + self.target_values * target_length
        return rows * values * bytes_per_value
