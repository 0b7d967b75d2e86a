"""The order of each sum of gradients is fixed, so that a run repeats to the last bit.

TensorFlow's AddN begins with the first input whose buffer nobody else holds at that moment. The first two inputs may be
exchanged; with three or more, one of these two has to have a buffer of its own, whatever the timing.
"""

import collections
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context

from t2t_lite.training.gradients import loss_and_gradients
from tests.families import BATCH, VARIANTS, build

# Operations that may hand on the buffer of an input.
_PASS = {
    *("Cast", "Enter", "Exit", "ExpandDims", "Identity", "Merge", "NextIteration", "PreventGradient", "Reshape"),
    *("Squeeze", "StopGradient", "Sum", "Switch"),
}
_NO_BUFFER = {"Rank", "Shape", "ShapeN", "Size"}  # readers of a shape
_VIEWS = {
    "_Arg",
    "IdentityN",
    "Split",
    "StridedSlice",
    "TensorListGetItem",
    "Unpack",
}  # a Slice of the last axis copies
# Elements of a list of gradients. The list outlives the loop, so AddN never begins with them.
_KEPT = [["TensorListGetItem", "TensorListGetItem"]]


def _node(name: str) -> str:
    return name.split(":")[0]


def _sums_with_an_open_order(graph: Any) -> Iterator[tuple[str, list[str]]]:
    """Yields name and the operations that made the inputs of each AddN whose order depends on timing."""
    nodes = {node.name: node for node in graph.node}

    def maker(name: str) -> str:
        while _node(name) in nodes and nodes[_node(name)].op in _PASS:
            name = nodes[_node(name)].input[0]
        return name.removesuffix(":0")

    readers = collections.Counter(
        maker(name)
        for node in graph.node
        if node.op not in _PASS | _NO_BUFFER
        for name in node.input
        if not name.startswith("^")
    )
    for node in graph.node:
        inputs = [maker(name) for name in node.input if not name.startswith("^")]
        if node.op != "AddN" or len(inputs) < 3:
            continue
        made_by = [nodes[_node(name)].op for name in inputs]
        own = [readers[name] == 1 and op not in _VIEWS for name, op in zip(inputs, made_by, strict=True)]
        if not any(own[:2]) and made_by[:2] not in _KEPT:
            yield node.name, made_by


def _gradients(loss: Any) -> list[tuple[str, list[str]]]:
    """The open sums of a graph after TensorFlow's optimizer, which also makes new sums of old ones."""
    context.context().enable_graph_collection()
    try:
        loss()
        graphs = context.context().export_run_metadata().function_graphs
    finally:
        context.context().disable_graph_collection()
    return [found for graph in graphs for found in _sums_with_an_open_order(graph.post_optimization_graph)]


@pytest.mark.nightly
@pytest.mark.parametrize("variant", VARIANTS)
def test_no_sum_depends_on_timing(variant: str) -> None:
    model = build(variant.partition("/")[0], VARIANTS[variant])
    spec = {name: tf.TensorSpec([None, None], tf.int32) for name in BATCH}

    @tf.function(input_signature=[spec], autograph=False)
    def run(batch: Any) -> Any:
        seed = np.array([3, 1, 0], "int32")
        groups = 1 if model.balance_groups else 0
        return loss_and_gradients(model, batch, seed, 20.0, (0.1, "all"), groups=groups, shards=2, jit=False)

    assert _gradients(lambda: run(BATCH)) == []


def test_a_sum_whose_order_depends_on_timing_is_found() -> None:
    @tf.function(input_signature=[tf.TensorSpec([None, 3])] * 4, autograph=False)
    def run(a: Any, b: Any, c: Any, w: Any) -> Any:
        shared = [tf.matmul(x, w, transpose_b=True) for x in (a, b, c)]
        return tf.add_n(shared), [tf.matmul(x, w) for x in shared]

    values = [np.ones((3, 3), "float32")] * 4
    assert [made_by for _, made_by in _gradients(lambda: run(*values))] == [["MatMul"] * 3]
