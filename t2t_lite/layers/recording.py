"""Recording of what layers compute while a model runs: attention for pictures, experts for their balance."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

_recorders: contextvars.ContextVar[Mapping[int, Callable[[Any], None]]] = contextvars.ContextVar(
    "_recorders", default=MappingProxyType({})
)


def recorder(layer: Any) -> Callable[[Any], None] | None:
    """Returns what a layer gives its values to, or None if nobody records them."""
    return _recorders.get().get(id(layer))


@contextlib.contextmanager
def record(layers: Sequence[Any]) -> Iterator[list[Any]]:
    """Context whose list receives what each layer gives to its `recorder` in this thread, in the order of their calls.

    Attention gives weights [B, H, T, S], a mixture of experts its `Gates`.
    """
    seen: list[Any] = []
    token = _recorders.set({**_recorders.get(), **{id(layer): seen.append for layer in layers}})
    try:
        yield seen
    finally:
        _recorders.reset(token)
