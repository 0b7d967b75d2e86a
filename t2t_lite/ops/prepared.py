"""Weights prepared for a search: what its many steps multiply with is cast and laid out once, not in every step."""

from __future__ import annotations

import contextlib
from typing import Any

import keras
import tensorflow as tf

from t2t_lite.layers.functions import use
from t2t_lite.layers.matrix import Matrix, matrices_of
from t2t_lite.layers.mixture_of_experts import expert_outputs
from t2t_lite.ops.experts import experts_of_search
from t2t_lite.ops.int8 import Int8Matrix
from t2t_lite.ops.outer_graph import OuterGraph
from t2t_lite.ops.packed import PackedMatrix
from t2t_lite.ops.prepacked import PrepackedMatrix


def prepare_weights(model: Any, *, prepack: bool = False, jit: bool = False) -> contextlib.AbstractContextManager[None]:
    """Returns a context in which prepared matrices stand for all weights that layers declare.

    A `PackedMatrix` or a `PrepackedMatrix` stands for each variable. An int8 matrix has one that keeps what oneDNN
    makes of it. Arrays are made when a layer first needs them, but in the graph in which this function is called, so
    only once for all rounds of a loop inside. Mixtures of experts get a function of their own.

    Args:
        model: a Keras model; see `layers.matrix` for what its layers declare.
        prepack: the weights are final, and `prepacked.is_supported`.
        jit: the graph is for XLA.
    """
    outer = OuterGraph()

    def prepare(weight: Any, axes: str) -> Matrix:
        if isinstance(weight, Int8Matrix):
            return weight.for_steps(outer, prepack)
        return (PrepackedMatrix if prepack else PackedMatrix)(weight, axes, outer)

    declared = matrices_of(dict.fromkeys(model._flatten_layers()))
    weights = ((getattr(layer, name), axes) for layer, name, axes in declared)
    matrices = [(weight, prepare(weight, axes)) for weight, axes in weights]
    return use([*matrices, (expert_outputs, experts_of_search(outer, jit=jit))])


def read_weights_once(model: Any) -> keras.StatelessScope:
    """Returns a scope in which a model's variables are the values that they have when this function is called."""
    return keras.StatelessScope([(weight, tf.convert_to_tensor(weight.value)) for weight in model.weights])
