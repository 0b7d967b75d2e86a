"""Weight matrix that multiplies: a replacement for a variable while nothing is trained.

A layer's class names in `MATRICES` the weights in whose place one may stand, and their axes: I is summed over, O are
outputs. A class derived from it may use them as it likes, so it must say so again. A class names in `LOOKED_UP` the
weights of which it only takes rows.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from keras import ops

TensorFn = Callable[[Any], Any]


class Matrix(abc.ABC):
    """A matrix without gradients, such as one of int8 weights.

    Attributes:
        outputs: O.
    """

    outputs: int

    @abc.abstractmethod
    def multiply(self, rows: Any, *others: Any) -> list[Any]:
        """Returns x [R, I] times this matrix and `others` of its kind, [R, O] each in the dtype of x; one product."""

    @abc.abstractmethod
    def take(self, ids: Any) -> Any:
        """Returns the vectors of outputs: int [...] -> float32 [..., I]."""

    def bias(self, values: Any, dtype: Any) -> Any:
        """Returns a bias [O] as it is added to products."""
        return ops.cast(values, dtype)

    @abc.abstractmethod
    def norm_factors(self, gains: Any, dtype: Any) -> Any:
        """Returns what products are multiplied by so that output o's vector has the length gains[o], [O] in `dtype`."""


def norm_factors(rows: Any, gains: Any) -> Any:
    """What gives rows the lengths `gains`, gains / |row|. float32 [O, I], [O] -> [O]."""
    return gains * ops.rsqrt(ops.sum(ops.square(rows), axis=1))


def matrices_of(layers: Iterable[Any]) -> Iterator[tuple[Any, str, str]]:
    """Yields layers, attributes of theirs that may be a `Matrix`, and the axes of those."""
    for layer in layers:
        for name, axes in vars(type(layer)).get("MATRICES", {}).items():
            yield layer, name, axes
