"""The graph around loops, in which what does not change from step to step is computed once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable
from typing import Any

import tensorflow as tf


class OuterGraph:
    """Where it was made: a graph that is being traced, or no graph.

    A loop's body may ask for a tensor of the graph around it: it is made there when it is first asked for.
    """

    def __init__(self) -> None:
        self._graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
        self._made: dict[Hashable, Any] = {}

    def once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Returns what `make` returned in this graph when it was called for the first time with `key`."""
        if key not in self._made:
            with contextlib.nullcontext() if self._graph is None else self._graph.as_default():
                self._made[key] = make()
        return self._made[key]
