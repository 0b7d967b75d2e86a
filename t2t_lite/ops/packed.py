"""Weights packed for a search: cast and laid out once, as the precision wants them.

Earns (benchmarks/README.md): D1 0.85 of the time in float32 on processors with AVX2; with bfloat16 D2 0.84, D3 0.80.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from t2t_lite.layers.matrix import Matrix
from t2t_lite.ops.outer_graph import OuterGraph

_MORE = 16
_APART = 256  # numbers: rows whose distance is a multiple of it fall into few sets of a cache


class VariableMatrix(Matrix):
    """A variable's value; where it is used as an array, it is one.

    Args:
        weight: a variable.
        axes: "IO" or "OI".
        outer: where it is cast.
    """

    def __init__(self, weight: Any, axes: str, outer: OuterGraph) -> None:
        self.weight, self.axes, self.outer = weight, axes, outer
        self.shape, self.dtype = weight.shape, weight.dtype
        self.outputs = weight.shape[axes.index("O")]

    def __tf_tensor__(self, dtype: Any = None, name: str | None = None) -> Any:
        return tf.convert_to_tensor(self.weight, dtype, name)

    def take(self, ids: Any) -> Any:
        return tf.gather(tf.convert_to_tensor(self.weight), ids)

    def bias(self, values: Any, dtype: Any) -> Any:
        return self.outer.once((dtype, "bias", self), lambda: tf.cast(tf.convert_to_tensor(values), dtype))


class PackedMatrix(VariableMatrix):
    """A variable's value, cast and laid out once for a search.

    With few rows to multiply, reading the matrix is what takes time: float32 is laid out as [I, O], `padded`, as
    TensorFlow's product without oneDNN would transpose a table each time; bfloat16 as [O, I], as two numbers of a
    column are multiplied at once.

    Args:
        weight, axes, outer: as for `VariableMatrix`.
        inner: "O" or "I": zeros that were added to the outputs stay in the products, or are expected in the inputs.
    """

    def __init__(self, weight: Any, axes: str, outer: OuterGraph, inner: str = "") -> None:
        super().__init__(weight, axes, outer)
        self._inner = inner

    def multiply(self, rows: Any, *others: Any) -> list[Any]:
        matrices, dtype = (self, *others), rows.dtype
        array = self.outer.once((dtype, *matrices), lambda: _packed(matrices, dtype))
        product = tf.matmul(rows, array, transpose_b=dtype == tf.bfloat16)
        return [product] if self._inner == "O" else columns(product, (matrix.outputs for matrix in matrices))

    def bias(self, values: Any, dtype: Any) -> Any:
        if self._inner != "O":
            return super().bias(values, dtype)
        return self.outer.once((dtype, "bias", self), lambda: padded(tf.cast(tf.convert_to_tensor(values), dtype), 0))

    def array(self, dtype: Any) -> Any:
        """[I, O] in float32, [O, I] in bfloat16; with zeros in the inputs, where they are expected."""
        array = tf.cast(tf.convert_to_tensor(self.weight), dtype)
        if (self.axes == "IO") == (dtype == tf.bfloat16):
            array = tf.transpose(array)
        return padded(array, 0) if self._inner == "I" else array


def _packed(matrices: Iterable[PackedMatrix], dtype: Any) -> Any:
    arrays = [matrix.array(dtype) for matrix in matrices]
    outputs = 0 if dtype == tf.bfloat16 else 1
    return padded(tf.concat(arrays, outputs) if len(arrays) > 1 else arrays[0], outputs)


def columns(product: Any, sizes: Iterable[int]) -> list[Any]:
    """Cuts a product [R, O] of several matrices; what is behind the last one's columns is left out."""
    ends = [0, *itertools.accumulate(sizes)]
    if ends[1:] == [product.shape[-1]]:
        return [product]
    return [product[:, start:end] for start, end in itertools.pairwise(ends)]


def padded(array: Any, axis: int) -> Any:
    """With some zeros more along `axis`, where its size asks for it as that of a matrix's columns.

    Rows of float32 that are a power of two apart push each other out of the processor's cache: with some columns more,
    products of 64 to 256 rows are up to 1.8 times as fast. Those in bfloat16 are not.
    """
    if array.shape[axis] % _APART or array.dtype == tf.bfloat16:
        return array
    return tf.pad(array, [[0, _MORE * (i == axis)] for i in range(len(array.shape))])
