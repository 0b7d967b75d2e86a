"""Weight matrix that multiplies: it stands for a variable while nothing is trained.

A layer's class lists in `MATRICES` the weights that a `Matrix` may stand for, with their axes: I is summed over, O are
outputs. A derived class may use these weights in other ways, so it must declare `MATRICES` again. A class lists in
`LOOKED_UP` the weights from which it only takes rows, and in `FLOAT32` those with two or more axes that it uses in
float32 whatever the model's precision; an export does not round them.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Iterator
from typing import Any

from keras import ops


class Matrix(abc.ABC):
    """A matrix without gradients, such as one of int8 weights.

    Attributes:
        outputs: O.
    """

    outputs: int

    @abc.abstractmethod
    def multiply(self, rows: Any, *others: Any) -> list[Any]:
        """Returns rows [R, I] times this matrix and times each of `others`, which are of the same kind.

        All are computed as one product. Each result is [R, O], in the dtype of `rows`.
        """

    @abc.abstractmethod
    def take(self, ids: Any) -> Any:
        """Returns the vectors of the outputs `ids`: int [...] -> float32 [..., I]."""

    def bias(self, values: Any, dtype: Any) -> Any:
        """Returns a bias [O] in the form in which it is added to products."""
        return ops.cast(values, dtype)

    @abc.abstractmethod
    def norm_factors(self, gains: Any, dtype: Any) -> Any:
        """Returns the factors for products, [O] in `dtype`, that give output o's vector the length gains[o]."""


def norm_factors(rows: Any, gains: Any) -> Any:
    """Returns the factors that give rows the lengths `gains`: gains / |row|. float32 [O, I], [O] -> [O]."""
    return gains * ops.rsqrt(ops.sum(ops.square(rows), axis=1))


def matrices_of(layers: Iterable[Any]) -> Iterator[tuple[Any, str, str]]:
    """Yields each attribute for which a `Matrix` may stand: its layer, its name and its axes."""
    for layer in layers:
        for name, axes in vars(type(layer)).get("MATRICES", {}).items():
            yield layer, name, axes


def find_weight_ids(layers: Iterable[Any], where: str) -> set[int]:
    """Returns the `id` of each weight that the layers' classes list in `where`, "LOOKED_UP" or "FLOAT32"."""
    return {id(getattr(layer, name, None)) for layer in layers for name in getattr(layer, where, ())}
