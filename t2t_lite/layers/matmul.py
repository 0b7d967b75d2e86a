"""Products with weights, each of which is a variable or a `Matrix`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from keras import ops

from t2t_lite.layers.functions import current
from t2t_lite.layers.matrix import Matrix


def matmul(x: Any, weights: Any, bias: Any = None, *, heads: int | None = None, transposed: bool = False) -> Any:
    """x W + b over the last axis, in x's dtype. [..., I], [I, O], [O] -> [..., O], or [..., heads, O / heads].

    Args:
        transposed: the weights are [O, I].
    """
    weights = current(weights)
    rows = ops.reshape(x, (-1, x.shape[-1]))  # one plain product is faster than a batched one
    if isinstance(weights, Matrix):
        (product,) = weights.multiply(rows)
        bias = None if bias is None else weights.bias(bias, x.dtype)
    else:
        weights = ops.cast(weights, x.dtype)
        product = ops.matmul(rows, ops.transpose(weights) if transposed else weights)
        bias = None if bias is None else ops.cast(bias, x.dtype)
    product = _split(product, x, heads)
    return product if bias is None else product + bias


def matmul_many(x: Any, weights: Sequence[Any], heads: int) -> list[Any]:
    """`matmul` of x with each of several weights [I, O], whose O may differ; one product is faster than several."""
    weights = [current(each) for each in weights]
    first, *others = weights
    if isinstance(first, Matrix):
        products = first.multiply(ops.reshape(x, (-1, x.shape[-1])), *others)
        return [_split(product, x, heads) for product in products]
    by_head = [ops.reshape(ops.cast(w, x.dtype), (w.shape[0], heads, w.shape[1] // heads)) for w in weights]
    joined = ops.concatenate(by_head, axis=-1)
    ends = itertools.accumulate(w.shape[-1] for w in by_head[:-1])
    product = matmul(x, ops.reshape(joined, (joined.shape[0], heads * joined.shape[2])), heads=heads)
    return ops.split(product, list(ends), axis=-1)


def take(weights: Any, ids: Any) -> Any:
    """Rows of weights [O, I]: int [...] -> [..., I]."""
    weights = current(weights)
    return weights.take(ids) if isinstance(weights, Matrix) else ops.take(weights, ids, axis=0)


def batch_shape(x: Any) -> tuple[Any, ...]:
    """The sizes of all axes of `x` [B, ..., I] but the last, as `ops.reshape` takes them.

    If all but the first are known, the first is -1: the graph then looks up no sizes when it runs.
    """
    known = x.shape[1:-1]
    return tuple(ops.shape(x)[:-1]) if None in known else (-1, *known)


def _split(rows: Any, x: Any, heads: int | None) -> Any:
    """[R, O] -> [..., O] with the axes of x, or [..., heads, O / heads]."""
    size = rows.shape[-1]
    return ops.reshape(rows, (*batch_shape(x), *((heads, size // heads) if heads else (size,))))
