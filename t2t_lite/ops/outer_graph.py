"""The graph around loops: it computes once whatever does not change from step to step."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable
from typing import Any

import tensorflow as tf
from tensorflow.python.framework.ops import get_default_graph  # tf.compat.v1 would be imported for it


class OuterGraph:
    """The graph in which this object was made: one that is being traced, or none.

    A loop's body may ask for a tensor of the graph around it. The tensor is made in that graph at the first request.
    """

    def __init__(self) -> None:
        self._graph = None if tf.executing_eagerly() else get_default_graph()
        self._made: dict[Hashable, Any] = {}

    def once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Returns what `make` returned in this graph at the first call with this `key`."""
        if key not in self._made:
            with contextlib.nullcontext() if self._graph is None else self._graph.as_default():
                self._made[key] = make()
        return self._made[key]
