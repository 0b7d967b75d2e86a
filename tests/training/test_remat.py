"""remat=true keeps less for the gradients, and changes none of them; test_replicas.py checks it on two devices."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

V = 60
SEED = np.array([3, 4, 0], "int32")
BATCH = {
    "source": np.random.default_rng(1).integers(2, V, (3, 7), "int32"),
    "target": np.random.default_rng(2).integers(2, V, (3, 5), "int32"),
}


def _gradients(model: Any) -> tuple[list[np.ndarray], tf.Graph]:
    """Gradients of a loss with dropout, and the graph that computes them."""

    @tf.function(autograph=False)
    def run() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.math.log_softmax(model(BATCH, seed=SEED))[..., 3])
        return [tf.convert_to_tensor(g) for g in tape.gradient(loss, [w.value for w in model.trainable_weights])]

    return [gradient.numpy() for gradient in run()], run.get_concrete_function().graph


@pytest.mark.commit("post")
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_gradients_are_the_same_and_layers_are_computed_twice(make_model: Callable[..., Any], norm: str) -> None:
    keeping, remat = (make_model(V, dropout=0.2, norm=norm, remat=on) for on in (False, True))
    wanted, graph = _gradients(keeping)
    got, remat_graph = _gradients(remat)
    for one, other in zip(wanted, got, strict=True):
        np.testing.assert_allclose(other, one, rtol=0, atol=1e-6 * np.abs(one).max())
    assert _products(remat_graph) > 1.2 * _products(graph)


@pytest.mark.commit
def test_memory_counts_one_layer_and_the_inputs_of_all(make_model: Callable[..., Any]) -> None:
    keeping, remat = (make_model(V, num_layers=6, remat=on).cost.activation_bytes(4, 30, 30, 4) for on in (False, True))
    assert keeping / 6 < remat < keeping / 2


def _products(graph: tf.Graph) -> int:
    definition = graph.as_graph_def()
    nodes = [*definition.node, *(node for function in definition.library.function for node in function.node_def)]
    return sum(node.op == "MatMul" for node in nodes)
