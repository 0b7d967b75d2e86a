"""Products with weight matrices."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from t2t_lite.layers.matrix import Function, Matrix

_MORE = 16
_APART = 256  # numbers: rows whose distance is a multiple of it fall into few sets of a cache


def matmul(x: Any, kernel: Any, heads: int | None = None) -> Any:
    """Matrix product over the last axis in x's dtype. [..., I], [I, O] -> [..., O], or [..., heads, O / heads].

    Args:
        kernel: an array, or a `Matrix`.
    """
    rows = ops.reshape(x, (-1, x.shape[-1]))  # one plain product is faster than a batched one
    size = kernel.shape[-1]
    if isinstance(kernel, Matrix):
        product = kernel.product(x.dtype)(rows)
    else:
        product = ops.matmul(rows, ops.cast(kernel, x.dtype))
    return ops.reshape(product, (*batch_shape(x), *((heads, size // heads) if heads else (size,))))


def batch_shape(x: Any) -> tuple[Any, ...]:
    """The sizes of all axes of `x` [B, ..., I] but the last, as `ops.reshape` takes them.

    Where the others are known, the first is -1: nothing has to be looked up when the graph runs.
    """
    known = x.shape[1:-1]
    return tuple(ops.shape(x)[:-1]) if None in known else (-1, *known)


def step_dot(kernel: Any, dtype: str) -> Function:
    """As `step_dots` for one kernel: the function returns its product alone."""
    products = step_dots((kernel,), dtype)
    return lambda x: products(x)[0]


def step_dots(kernels: Sequence[Any], dtype: str) -> Callable[[Any], Sequence[Any]]:
    """Returns the function that maps x to `matmul(x, kernel)` of each kernel, for the many steps of a search.

    With few rows in x, reading the kernel is what takes time. It does not change during a search, so it is cast and
    laid out once, as the product likes it best: bfloat16 transposed, as two numbers of a column are multiplied at once,
    and float32 `widened`.

    Args:
        kernels: [I, O] each, O may differ; side by side they are one product. Arrays, or a `Matrix` each.
        dtype: of what the function will be given.
    """
    ends = [0, *itertools.accumulate(kernel.shape[-1] for kernel in kernels)]
    multiply, size = _laid_out(kernels, dtype)

    def products(x: Any) -> list[Any]:
        product = ops.reshape(multiply(ops.reshape(x, (-1, x.shape[-1]))), (*batch_shape(x), size))
        if size == kernels[0].shape[-1]:
            return [product]
        return [product[..., start:end] for start, end in itertools.pairwise(ends)]

    return products


def _laid_out(kernels: Sequence[Any], dtype: str) -> tuple[Function, int]:
    """What multiplies rows [R, I] with the kernels side by side; and how many columns that has."""
    first, *others = kernels
    if isinstance(first, Matrix):
        whole = first.concat(others) if others else first
        return whole.product(dtype, steps=True), whole.shape[-1]
    cast = [ops.cast(kernel, dtype) for kernel in kernels]
    array = widened(ops.concatenate(cast, axis=1) if others else cast[0], 1)
    if is_bfloat16(dtype):
        transposed = ops.transpose(array)
        return lambda rows: ops.matmul(rows, ops.transpose(transposed)), array.shape[-1]
    return lambda rows: ops.matmul(rows, array), array.shape[-1]


def is_bfloat16(dtype: Any) -> bool:
    """Whether a backend's dtype is bfloat16."""
    return keras.backend.standardize_dtype(dtype) == "bfloat16"


def widened(array: Any, axis: int) -> Any:
    """With some zeros more along `axis`, where its size asks for it as that of a matrix's columns.

    Rows of float32 that are a power of two apart push each other out of the processor's cache: with some columns more,
    products of 64 to 256 rows are up to 1.8 times as fast. Those in bfloat16 are not.
    """
    if array.shape[axis] % _APART or is_bfloat16(array.dtype):
        return array
    return ops.pad(array, tuple((0, _MORE * (i == axis)) for i in range(len(array.shape))))
