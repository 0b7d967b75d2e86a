"""A weight matrix that is no array, and makes its products itself.

A layer's class names in `MATRICES` the weights that may be one, and their axes: I is summed over, O are outputs. A
class derived from it may use them as it likes, so it must say so again. A class names in `LOOKED_UP` the weights of
which it only takes rows.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

Function = Callable[[Any], Any]


class Matrix(abc.ABC):
    """A matrix [I, O], such as one of int8 weights; where it takes an array's place there are no gradients.

    Attributes:
        shape: (I, O).
    """

    shape: tuple[int, int]

    @abc.abstractmethod
    def product(self, dtype: str, *, steps: bool = False) -> Function:
        """Returns the function of x [R, I] in `dtype` to x times the matrix, [R, O].

        Args:
            steps: it is for the many steps of a search.
        """

    @abc.abstractmethod
    def concat(self, others: Sequence[Any]) -> Matrix:
        """Returns this matrix and `others`, of its own kind and [I, ...] each, side by side."""

    @abc.abstractmethod
    def columns(self, ids: Any) -> Any:
        """Returns columns: int [...] to float32 [..., I]."""


def matrices_of(layers: Iterable[Any]) -> Iterator[tuple[Any, str, str]]:
    """Yields layers, attributes of theirs that may be a `Matrix`, and the axes of those."""
    for layer in layers:
        for name, axes in vars(type(layer)).get("MATRICES", {}).items():
            yield layer, name, axes
