"""The table of what stands for functions and weights of layers while a graph is traced.

Beside a layer stands the paper's form of what it computes. The layer calls what `current` returns for that function:
the function itself, unless `use` has something faster in its place. In the same way a search has its own form of a
weight, a `Matrix`. Each thread has a table of its own, so that several threads can trace a model at once.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

_table: contextvars.ContextVar[Mapping[int, Any]] = contextvars.ContextVar("_table", default=MappingProxyType({}))


def current(thing: Any) -> Any:
    """Returns what stands for a function or a weight: itself, unless `use` says something else."""
    return _table.get().get(id(thing), thing)


@contextlib.contextmanager
def use(pairs: Iterable[tuple[Any, Any]]) -> Iterator[None]:
    """Context in which `current` returns the second of each pair for the first."""
    token = _table.set({**_table.get(), **{id(thing): other for thing, other in pairs}})
    try:
        yield
    finally:
        _table.reset(token)
