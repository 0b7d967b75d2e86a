"""Experts without XLA: all rows of an expert in one product, without copies of its matrices.

`layers.mixture_of_experts.expert_outputs` copies a matrix for each block of rows, because XLA does not allow sizes that
depend on the routing. Without XLA sizes may depend on it, so nothing is copied or computed in vain.

Gain (docs/results.md): forward and backward pass of a mixture take 0.26 to 0.67 of the processor time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from t2t_lite.layers.mixture_of_experts import MixtureOfExperts, expert_outputs
from t2t_lite.ops.outer_graph import OuterGraph
from t2t_lite.ops.replaced import replaced


def experts_one_by_one(model: Any, outer: OuterGraph | None = None) -> contextlib.AbstractContextManager[None]:
    """Gives the mixtures of a model a function for graphs without XLA.

    Args:
        outer: graph of a search, whose steps share each expert's cast matrices; None: each call casts them.
    """

    def matrices(kernels: Any, dtype: Any) -> list[Any]:
        return tf.unstack(tf.cast(tf.convert_to_tensor(kernels), dtype))

    return _mixtures(model, _outputs, matrices, outer)


def experts_in_blocks(model: Any, outer: OuterGraph) -> contextlib.AbstractContextManager[None]:
    """Lets the steps of a search for XLA share the cast matrices of experts; their function stays the same.

    Args:
        outer: graph of the search.
    """
    return _mixtures(model, expert_outputs, lambda kernels, dtype: tf.cast(tf.convert_to_tensor(kernels), dtype), outer)


@contextlib.contextmanager
def _mixtures(
    model: Any, function: Callable[..., Any], matrices: Callable[[Any, Any], Any], outer: OuterGraph | None
) -> Iterator[None]:
    """Gives the mixtures of a model a `function`, in place of `expert_outputs`.

    Args:
        matrices: makes of a mixture's kernels and a dtype what the function takes in their place; once, with `outer`.
    """

    def of_layer(layer: Any) -> Callable[..., Any]:
        def expert_outputs(rows: Any, experts: Any, *kernels: Any) -> Any:
            def made() -> list[Any]:
                return [matrices(each, rows.dtype) for each in kernels]

            return function(rows, experts, *(outer.once((rows.dtype, layer), made) if outer else made()))

        return expert_outputs

    mixtures = [layer for layer in model._flatten_layers() if type(layer) is MixtureOfExperts]
    with replaced({layer: {"function": of_layer(layer)} for layer in mixtures}):
        yield


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
