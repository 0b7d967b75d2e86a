"""Weights packed for a search: cast and laid out once, as suits the precision.

Gain (benchmarks/notebook.md): with bfloat16 D2 takes 0.84 of the time, D3 0.80.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from t2t_lite.layers.matrix import Matrix, norm_factors
from t2t_lite.ops.outer_graph import OuterGraph


class VariableMatrix(Matrix):
    """A variable's value.

    Args:
        weight: a variable.
        axes: "IO" or "OI".
        outer: graph in which it is cast.
    """

    def __init__(self, weight: Any, axes: str, outer: OuterGraph) -> None:
        self.weight, self.axes, self.outer = weight, axes, outer
        self.outputs = weight.shape[axes.index("O")]

    def take(self, ids: Any) -> Any:
        return tf.gather(tf.convert_to_tensor(self.weight), ids)

    def bias(self, values: Any, dtype: Any) -> Any:
        return self.outer.once((dtype, "bias", self), lambda: tf.cast(tf.convert_to_tensor(values), dtype))

    def norm_factors(self, gains: Any, dtype: Any) -> Any:
        def make() -> Any:
            rows = tf.convert_to_tensor(self.weight)
            rows = rows if self.axes == "OI" else tf.transpose(rows)
            return tf.cast(norm_factors(rows, tf.convert_to_tensor(gains)), dtype)

        return self.outer.once((dtype, "norm factors", self), make)


class PackedMatrix(VariableMatrix):
    """A variable's value, cast and laid out once for a search.

    With few rows to multiply, it is reading the matrix that takes time. float32 and float16 are laid out as [I, O],
    because TensorFlow's product without oneDNN would otherwise transpose a table each time. bfloat16 is laid out as
    [O, I], because two numbers of a column are multiplied at once.
    """

    def multiply(self, rows: Any, *others: Any) -> list[Any]:
        matrices, dtype = (self, *others), rows.dtype
        array = self.outer.once((dtype, *matrices), lambda: _pack(matrices, dtype))
        product = tf.matmul(rows, array, transpose_b=dtype == tf.bfloat16)
        return columns(product, (matrix.outputs for matrix in matrices))

    def array(self, dtype: Any) -> Any:
        """[I, O] in float32 and float16, [O, I] in bfloat16."""
        array = tf.cast(tf.convert_to_tensor(self.weight), dtype)
        return tf.transpose(array) if (self.axes == "IO") == (dtype == tf.bfloat16) else array


def _pack(matrices: Iterable[PackedMatrix], dtype: Any) -> Any:
    arrays = [matrix.array(dtype) for matrix in matrices]
    return tf.concat(arrays, 0 if dtype == tf.bfloat16 else 1) if len(arrays) > 1 else arrays[0]


def columns(product: Any, sizes: Iterable[int]) -> list[Any]:
    """Splits a product [R, O] of several matrices into one product for each."""
    ends = [0, *itertools.accumulate(sizes)]
    if len(ends) == 2:
        return [product]
    return [product[:, start:end] for start, end in itertools.pairwise(ends)]
