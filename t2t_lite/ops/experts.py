"""Experts without XLA: all rows of an expert in one product, without copies of its matrices.

`layers.mixture_of_experts.expert_outputs` copies a matrix for each block of rows, because XLA does not allow sizes that
depend on the routing. Without XLA sizes may depend on it, so nothing is copied or computed in vain.

Gain (docs/results.md): forward and backward pass of a mixture take 0.26 to 0.67 of the processor time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from t2t_lite.layers.mixture_of_experts import expert_outputs
from t2t_lite.ops.outer_graph import OuterGraph


def experts_one_by_one(rows: Any, experts: Any, *kernels: Any) -> Any:
    """As `layers.mixture_of_experts.expert_outputs`, for graphs without XLA."""
    return _outputs(rows, experts, *(_apart(each, rows.dtype) for each in kernels))


def experts_of_search(outer: OuterGraph, *, jit: bool) -> Callable[..., Any]:
    """Returns such a function for the steps of a search, which share each expert's cast matrices.

    Args:
        outer: graph of the search.
        jit: the graph is for XLA.
    """
    function, cast = (expert_outputs, _cast) if jit else (_outputs, _apart)

    def of_search(rows: Any, experts: Any, *kernels: Any) -> Any:
        def make() -> list[Any]:
            return [cast(each, rows.dtype) for each in kernels]

        return function(rows, experts, *outer.once((rows.dtype, *map(id, kernels)), make))

    return of_search


def _cast(kernels: Any, dtype: Any) -> Any:
    return tf.cast(tf.convert_to_tensor(kernels), dtype)


def _apart(kernels: Any, dtype: Any) -> list[Any]:
    """[n, ...] -> n of [...]."""
    return tf.unstack(_cast(kernels, dtype))


def _outputs(rows: Any, experts: Any, matrices_1: list[Any], matrices_2: list[Any]) -> Any:
    """[N, D], int32 [N, k], n of [D, F] and n of [F, D] -> [N, k, D]."""
    n, k = len(matrices_1), experts.shape[-1]
    assigned = tf.reshape(experts, [-1])
    order = tf.argsort(assigned, stable=True)
    counts = tf.reduce_sum(tf.one_hot(assigned, n, dtype=tf.int32), 0)
    parts = tf.split(tf.gather(rows, order // k), counts, num=n)
    each = zip(parts, matrices_1, matrices_2, strict=True)
    outputs = tf.concat([tf.matmul(tf.nn.relu(tf.matmul(part, w)), v) for part, w, v in each], 0)
    places = tf.math.invert_permutation(order)
    return tf.gather(outputs, tf.reshape(places, [-1, k]))
