"""Products with weights of normalised rows against the equation, in training and in a search."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.layers.weight_norm import WeightNormLinear
from t2t_lite.ops import prepacked
from t2t_lite.ops.prepared import prepare_weights
from tests import convs2s_reference, reference

I, O = 7, 40  # noqa: E741
RNG = np.random.default_rng(1)
X = RNG.standard_normal((2, 3, I)).astype("float32")


def _layer(**kwargs: Any) -> WeightNormLinear:
    layer = WeightNormLinear(I, O, 0.3, name="linear", **kwargs)
    layer.build()
    for w in layer.weights:
        w.assign(RNG.standard_normal(tuple(w.shape)))
    return layer


def _wanted(layer: WeightNormLinear) -> np.ndarray:
    arrays = reference.weights_of(layer)
    return np.array([[convs2s_reference.linear(x, *arrays.values()) for x in row] for row in X])


def test_equals_the_equation() -> None:
    layer = _layer()
    reference.assert_close(layer(X), _wanted(layer), 1e-6)
    rows = np.linalg.norm(np.asarray(layer.matrix()), axis=1)
    np.testing.assert_allclose(rows, np.abs(np.asarray(layer.gain)), rtol=1e-5)


def test_at_first_rows_are_as_long_as_their_directions() -> None:
    layer = WeightNormLinear(400, 300, 0.5, name="linear")
    layer.build()
    np.testing.assert_allclose(layer.matrix(), layer.direction, rtol=1e-5, atol=1e-7)
    assert np.std(layer.direction) == pytest.approx(0.5, rel=0.02)
    assert not np.asarray(layer.bias).any()
    assert layer.count_params() == 400 * 300 + 2 * 300


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("prepack", [False, True])
def test_a_search_multiplies_by_the_same_rows(prepack: bool, dtype: str) -> None:
    if prepack and not prepacked.is_supported(dtype):
        pytest.skip(f"TensorFlow has no oneDNN here, or none that multiplies {dtype}")
    layer = _layer(dtype="mixed_bfloat16" if dtype == "bfloat16" else None)

    class Holder:
        def _flatten_layers(self) -> list[Any]:
            return [layer]

    @tf.function(autograph=False)
    def loop() -> Any:
        with prepare_weights(Holder(), prepack=prepack):
            shape = tf.zeros([2, 3, O], dtype)
            return tf.while_loop(lambda i, _: i < 2, lambda i, _: (i + 1, layer(X)), (0, shape))[1]

    got = loop()
    assert got.dtype == dtype
    reference.assert_close(np.float32(got), _wanted(layer), 1e-6 if dtype == "float32" else 2**-6)
    functions = loop.get_concrete_function().graph.as_graph_def().library.function
    (body,) = [function for function in functions if "body" in function.signature.name]
    assert not [node.name for node in body.node_def if node.op in ("Rsqrt", "Square", "Sum", "ReadVariableOp")]
