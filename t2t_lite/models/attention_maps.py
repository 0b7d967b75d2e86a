"""Recording of attention weights while a model runs, for pictures."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from t2t_lite.layers.attention import MultiHeadAttention


@contextlib.contextmanager
def watched(layers: Sequence[MultiHeadAttention]) -> Iterator[list[Any]]:
    """Context whose list receives the weights [B, H, T, S] of each layer, in the order of their calls."""
    weights: list[Any] = []
    try:
        for layer in layers:
            layer.watch = weights.append
        yield weights
    finally:
        for layer in layers:
            layer.watch = None
