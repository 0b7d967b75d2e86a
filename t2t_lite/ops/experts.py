"""Experts on CPUs: each one's rows in one product, with its matrices where they are.

`layers.mixture_of_experts.expert_outputs` copies a matrix for each block of rows, as sizes that depend on the routing
are not for XLA. Without XLA they may, so nothing is copied or computed in vain.

Earns (docs/results.md): forward and backward pass of a mixture 0.26 to 0.67 of the processor time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from t2t_lite.layers.mixture_of_experts import MixtureOfExperts
from t2t_lite.ops.replaced import replaced


def expert_outputs(rows: Any, experts: Any, kernels_1: Any, kernels_2: Any) -> Any:
    """As `layers.mixture_of_experts.expert_outputs`."""
    n, k = kernels_1.shape[0], experts.shape[-1]
    assigned = tf.reshape(experts, [-1])
    order = tf.argsort(assigned, stable=True)
    counts = tf.reduce_sum(tf.one_hot(assigned, n, dtype=tf.int32), 0)
    parts = tf.split(tf.gather(rows, order // k), counts, num=n)
    matrices = zip(parts, tf.unstack(kernels_1), tf.unstack(kernels_2), strict=True)
    outputs = tf.concat([tf.matmul(tf.nn.relu(tf.matmul(part, w)), v) for part, w, v in matrices], 0)
    places = tf.math.invert_permutation(order)
    return tf.gather(outputs, tf.reshape(places, [-1, k]))


@contextlib.contextmanager
def experts_one_by_one(model: Any) -> Iterator[None]:
    """Gives the mixtures of a model the function above; for graphs without XLA."""
    mixtures = [layer for layer in model._flatten_layers() if type(layer) is MixtureOfExperts]
    with replaced({layer: {"function": expert_outputs} for layer in mixtures}):
        yield
