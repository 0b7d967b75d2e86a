"""Mixtures of experts against NumPy: no position is dropped, and the form without XLA gives the same."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.layers.functions import use
from t2t_lite.layers.mixture_of_experts import BLOCKS, MixtureOfExperts, blocks
from t2t_lite.layers.noisy_top_k import cv_squared, standard_normal
from t2t_lite.layers.recording import record
from t2t_lite.ops.graph import PLAIN
from tests import moe_reference, reference

D, F, N, K = 5, 7, 4, 2
RNG = np.random.default_rng(1)
SEED = np.array([3, -4, 0], "int32")


@pytest.fixture(scope="module")
def layer() -> MixtureOfExperts:
    made = MixtureOfExperts(N, K, F, name="experts")
    made.build((None, None, D))
    for w in made.weights:
        w.assign(RNG.standard_normal(tuple(w.shape)))
    return made


@pytest.mark.parametrize("seed", [None, SEED], ids=["inference", "training"])
def test_the_layer_is_the_equation(layer: MixtureOfExperts, seed: np.ndarray | None) -> None:
    x = RNG.standard_normal((3, 20, D)).astype("float32")
    z = None if seed is None else np.asarray(standard_normal(np.zeros((3, 20, N)), seed), np.float64)
    weights = {w.path.removeprefix("experts/"): np.asarray(w, np.float64) for w in layer.weights}
    got = np.asarray(layer(x, seed=seed))
    for place in np.ndindex(3, 20):
        wanted = moe_reference.mixture(x[place].astype("float64"), weights, K, None if z is None else z[place])
        reference.assert_close(got[place], wanted, 1e-4)


def _gradients(layer: MixtureOfExperts, x: Any, one_by_one: bool, jit: bool = False) -> list[np.ndarray]:
    @tf.function(autograph=False, jit_compile=jit)
    def run(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x, seed=tf.constant(SEED))
            loss = tf.reduce_sum(y * tf.reshape(tf.range(tf.size(y), dtype=tf.float32), tf.shape(y)))
        sources = [x, *(w.value for w in layer.trainable_weights)]
        return [y, *(tf.convert_to_tensor(gradient) for gradient in tape.gradient(loss, sources))]

    if not one_by_one:
        return [value.numpy() for value in run(tf.constant(x))]
    with use(PLAIN):
        return [value.numpy() for value in run(tf.constant(x))]


@pytest.mark.commit("1")
@pytest.mark.parametrize("rows", [1, 30])
def test_one_by_one_with_blocks_and_under_xla_it_is_the_same(layer: MixtureOfExperts, rows: int) -> None:
    x = RNG.standard_normal((rows, 3, D)).astype("float32")
    wanted = _gradients(layer, x, False)
    for others in (_gradients(layer, x, True), _gradients(layer, x, False, jit=True)):
        for one, other in zip(others, wanted, strict=True):
            reference.assert_close(one, other.astype("float64"), 1e-4)


def _kept_bytes(layer: MixtureOfExperts, x: Any, in_blocks: bool) -> int:
    """Bytes that the forward pass in the graph hands to the backward pass, without weights and views of them."""
    kept: dict[Any, Any] = {}
    left_out = ("Const", "Placeholder", "ReadVariableOp", "Unpack", "AddN")  # sums of gradients are AddN

    @tf.function(autograph=False)
    def run(x: Any) -> Any:
        with tf.GradientTape() as tape, record([layer]) as seen:
            tape.watch(x)
            y = layer(x, seed=tf.constant(SEED))
            sums = [tf.reduce_sum(values, (0, 1)) for values in (seen[0].shares, seen[0].load)]
            loss = tf.cast(tf.reduce_sum(y), tf.float32) + cv_squared(sums[0]) + cv_squared(sums[1])
        tape.gradient(loss, [x, *(w.value for w in layer.trainable_weights)])
        for operation in tf.compat.v1.get_default_graph().get_operations():
            if operation.name.startswith("gradient_tape") and operation.type not in ("Shape", "ShapeN", "ConcatOffset"):
                for given in operation.inputs:
                    while given.op.type in ("Reshape", "Identity", "ExpandDims"):
                        given = given.op.inputs[0]
                    if not given.op.name.startswith("gradient_tape") and given.op.type not in left_out:
                        kept[given.ref()] = given
        return sum(tf.size(value) * value.dtype.size for value in kept.values())

    with use(() if in_blocks else PLAIN):
        return int(run(tf.constant(x, layer.compute_dtype)))


@pytest.mark.commit
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("in_blocks", [True, False])
def test_the_memory_that_is_kept_is_that_of_the_graph(in_blocks: bool, dtype: str) -> None:
    layer = MixtureOfExperts(4, 2, 64, dtype=dtype, name="experts")
    layer.build((None, None, 32))
    assert layer.size.products == 2 * 32 * (4 + 2 * 64)
    for positions in (30, 400):
        x = RNG.standard_normal((1, positions, 32))
        got = layer.size.kept_bytes(positions, 4 if dtype == "float32" else 2, in_blocks=in_blocks)
        assert got == pytest.approx(_kept_bytes(layer, x, in_blocks), rel=0.1)


@pytest.mark.parametrize("asked", ["one", "some", "any"])
@pytest.mark.parametrize("number", [0, 1, 16, 17, 900])
def test_each_assignment_has_a_slot_of_its_own_in_a_block_of_its_expert(number: int, asked: str) -> None:
    experts = {"one": np.full(number, 2), "some": RNG.choice([1, 3], number), "any": RNG.integers(0, N, number)}[asked]
    slots, of_blocks, size = (np.asarray(each) for each in blocks(experts.astype("int32"), N))
    assert len(set(slots.tolist())) == number
    np.testing.assert_array_equal(of_blocks[slots // size], experts)
    assert number <= len(of_blocks) * size <= number + N * (size - 1) <= number * (1 + 1 / BLOCKS)
