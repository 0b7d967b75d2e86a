"""Weights prepared for a search: what its many steps multiply with is cast and laid out once, not in every step."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

from t2t_lite.layers.matrix import Matrix, matrices_of
from t2t_lite.ops.experts import experts_in_blocks, experts_one_by_one
from t2t_lite.ops.int8 import Int8Matrix
from t2t_lite.ops.outer_graph import OuterGraph
from t2t_lite.ops.packed import PackedMatrix
from t2t_lite.ops.prepacked import PrepackedMatrix
from t2t_lite.ops.replaced import replaced


@contextlib.contextmanager
def prepare_weights(model: Any, *, prepack: bool = False, jit: bool = False) -> Iterator[None]:
    """Puts prepared matrices into all layers that declare them, and takes them out again.

    A `PackedMatrix` or a `PrepackedMatrix` replaces each variable. An int8 matrix is replaced by one that keeps what
    oneDNN makes of it. Arrays are made when a layer first needs them, but in the graph in which this function is
    called, so only once for all rounds of a loop inside. Mixtures of experts get a function of their own.

    Args:
        model: a Keras model; see `layers.matrix` for what its layers declare.
        prepack: the weights are final, and `prepacked.is_supported`.
        jit: the graph is for XLA.
    """
    outer = OuterGraph()

    def prepared(layer: Any, name: str, axes: str) -> Matrix:
        weight = getattr(layer, name)
        if isinstance(weight, Int8Matrix):
            return weight.for_steps(outer)
        return (PrepackedMatrix if prepack else PackedMatrix)(weight, axes, outer)

    new: dict[Any, dict[str, Any]] = {}
    for layer, name, axes in matrices_of(dict.fromkeys(model._flatten_layers())):
        new.setdefault(layer, {})[name] = prepared(layer, name, axes)
    with replaced(new), (experts_in_blocks if jit else experts_one_by_one)(model, outer):
        yield


def weights_read_once(model: Any) -> keras.StatelessScope:
    """Returns a scope in which a model's variables are the values that they have when this function is called."""
    return keras.StatelessScope([(weight, tf.convert_to_tensor(weight.value)) for weight in model.weights])
