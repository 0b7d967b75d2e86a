"""Recording of what layers compute while a model runs: attention for pictures, experts for their balance."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any


@contextlib.contextmanager
def watched(layers: Sequence[Any]) -> Iterator[list[Any]]:
    """Context whose list receives what each layer gives to `watch`, in the order of their calls.

    Attention gives weights [B, H, T, S], a mixture of experts its `Gates`.
    """
    seen: list[Any] = []
    try:
        for layer in layers:
            layer.watch = seen.append
        yield seen
    finally:
        for layer in layers:
            layer.watch = None
