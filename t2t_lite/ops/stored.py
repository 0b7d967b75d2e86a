"""Weights as an export stores them: in 16 bits where a bfloat16 or float16 model rounds them before it uses them."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from t2t_lite.layers.matrix import find_weight_ids


def stored_weights(model: Any) -> dict[str, Any]:
    """Returns a model's weights by path, as plain variables: with Keras' own, each would be saved a second time.

    A bfloat16 or float16 model rounds its float32 matrices wherever it uses them. They are rounded here, which gives
    the same outputs. Vectors stay float32, as layer normalisation needs them, and so do the matrices that a layer lists
    in `FLOAT32` (see `layers.matrix`), and those of a user's or Keras' layers that compute in float32.
    """
    layers = list(model._flatten_layers())
    exact = find_weight_ids(layers, "FLOAT32")
    # A layer of this package may have the policy float32 and still round its matrices, such as an Embedding.
    others = (layer for layer in layers if not type(layer).__module__.startswith("t2t_lite."))
    exact |= {id(weight) for layer in others if layer.compute_dtype == "float32" for weight in layer.weights}

    def store(weight: Any) -> Any:
        rounded = model.compute_dtype != "float32" and weight.dtype == "float32" and len(weight.shape) >= 2
        if rounded and id(weight) not in exact:
            return tf.Variable(tf.cast(weight.value, model.compute_dtype), trainable=False)
        return weight.value

    return {weight.path: store(weight) for weight in model.weights}
