"""Products with weight matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras import ops

Function = Callable[[Any], Any]

_MORE = 16
_APART = 256  # numbers: rows whose distance is a multiple of it fall into few sets of a cache


def dot(x: Any, kernel: Any) -> Any:
    """Matrix product over the last axis in x's dtype. [..., I], [I, O] -> [..., O]."""
    kernel = ops.cast(kernel, x.dtype)
    rows = ops.reshape(x, (-1, x.shape[-1]))  # one plain product is faster than a batched one
    return ops.reshape(ops.matmul(rows, kernel), (*ops.shape(x)[:-1], kernel.shape[-1]))


def step_dot(kernel: Any, dtype: str) -> Function:
    """Returns the function that maps x to `dot(x, kernel)`, for the many steps of a search.

    With few rows in x, reading the kernel is what takes time, and where its own rows are a power of two apart, they
    push each other out of the processor's cache: with some columns more, products of 64 to 256 rows are up to 1.8 times
    as fast. A kernel does not change during a search, so it is cast and laid out once.

    Args:
        kernel: [I, O].
        dtype: of what the function will be given.
    """
    columns = kernel.shape[-1]
    wide = widened(ops.cast(kernel, dtype), 1)
    return lambda x: narrowed(dot(x, wide), columns)


def widened(matrix: Any, axis: int) -> Any:
    """With some zeros more along `axis`, where that is to be the columns' and their number asks for it."""
    if matrix.shape[axis] % _APART:
        return matrix
    return ops.pad(matrix, tuple((0, _MORE * (i == axis)) for i in range(2)))


def narrowed(product: Any, columns: int) -> Any:
    """[..., columns or more] -> [..., columns]."""
    return product if product.shape[-1] == columns else product[..., :columns]
