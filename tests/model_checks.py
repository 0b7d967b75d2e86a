"""Checks for any model: search steps equal columns of a whole call, and the cost is that of the real products."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from t2t_lite.training.gradients import loss_and_gradients
from tests import reference


def assert_steps_equal_columns(model: Any, source: np.ndarray, vocab_size: int, steps: Any = 7) -> int:
    """Asserts that steps give the logits of whole calls, with hypotheses drawn, dropped and doubled at random.

    Args:
        steps: number of steps; a tensor as where the search is not compiled.

    Returns:
        How often the state was renewed.
    """
    sentences, beam, rng, renewals = len(source), 4, np.random.default_rng(3), 0
    call = tf.function(
        lambda source, target: model({"source": source, "target": target}),
        input_signature=[tf.TensorSpec([None, None], tf.int32)] * 2,
        autograph=False,
    )
    fixed, state, step = model.start(model.encode({"source": tf.constant(source)}), beam, steps)
    ids = np.zeros((sentences, beam, 0), "int32")
    for at in range(int(steps)):
        if not isinstance(steps, int) and model.is_full(state):
            state, renewals = model.renew(state, steps - at), renewals + 1
        previous = ids[:, :, -1] if at else np.zeros((sentences, beam), "int32")
        logits, state = step(tf.constant(previous), tf.constant(at), fixed, state)
        assert logits.dtype == tf.float32
        target = np.concatenate([ids, np.full((sentences, beam, 1), 2, "int32")], 2)  # 2 changes nothing before it
        wanted = call(np.repeat(source, beam, 0), target.reshape(sentences * beam, -1))[:, at]
        np.testing.assert_allclose(logits, np.reshape(wanted, (sentences, beam, -1)), rtol=0, atol=1e-5)
        parents = rng.integers(0, beam, (sentences, beam)).astype("int32")
        state = model.reorder(state, tf.constant(parents))
        symbols = rng.integers(1, vocab_size, (sentences, beam, 1)).astype("int32")
        ids = np.concatenate([np.take_along_axis(ids, parents[:, :, None], 1), symbols], 2)
    return renewals


def assert_golden_gradients(model: Any, golden: dict[str, np.ndarray], relative: float) -> None:
    """Asserts the golden gradients of all weights, none of them zeros.

    Args:
        golden: "source" and "target"; and "gradients/..." of each weight: of the sum of all logits, each times its
            factor in "factors" [B, T, V], zero at padding; without "factors" of the sum of cross entropies.
        relative: the largest difference, as for `reference.assert_close`.
    """

    @tf.function(autograph=False)
    def gradients() -> Any:
        with tf.GradientTape() as tape:
            logits = model({side: golden[side] for side in ("source", "target")})
            if "factors" in golden:
                loss = tf.reduce_sum(logits * golden["factors"].astype("float32"))
            else:
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(golden["target"], logits)
                loss = tf.reduce_sum(losses * (golden["target"] > 0).astype("float32"))
        found = tape.gradient(loss, [weight.value for weight in model.trainable_weights])
        return [tf.convert_to_tensor(gradient) for gradient in found]

    wanted = {key.removeprefix("gradients/"): golden[key] for key in golden if key.startswith("gradients/")}
    for weight, gradient in zip(model.trainable_weights, gradients(), strict=True):
        value = wanted.pop(weight.path.removeprefix(f"{model.name}/")).astype(np.float64)
        assert np.abs(value).max() > 0
        reference.assert_close(gradient, value, relative)
    assert not wanted


def golden_case(path: Path, name: str) -> dict[str, np.ndarray]:
    """Returns what a file has for a case ("name/..."), and for all of them (names without "/"); all without a name."""
    with np.load(path, allow_pickle=False) as file:
        if not name:
            return dict(file)
        return {key.removeprefix(f"{name}/"): file[key] for key in file if key.startswith(f"{name}/") or "/" not in key}


def assign_golden(model: Any, golden: dict[str, np.ndarray]) -> None:
    """Sets all weights to the golden "weights/..."; there must be as many, with the same names."""
    weights = {weight.path.removeprefix(f"{model.name}/"): weight for weight in model.weights}
    assert {f"weights/{path}" for path in weights} == {key for key in golden if key.startswith("weights/")}
    for path, weight in weights.items():
        weight.assign(golden[f"weights/{path}"])


def assert_golden_loss(
    model: Any, golden: dict[str, np.ndarray], smoothing: tuple[float, str], relative: float
) -> None:
    """Asserts the golden "loss" in training, per target symbol, and "gradients/..." of all weights, none of them zeros.

    Args:
        golden: also "source" and "target".
        smoothing: as for `loss_and_gradients`.
        relative: the largest difference, as for `reference.assert_close`.
    """
    batch, tokens = {side: tf.constant(golden[side]) for side in ("source", "target")}, golden["target"].astype(bool)

    @tf.function(autograph=False)
    def step() -> Any:
        seed, count = tf.constant([1, 2, 0]), float(tokens.sum())
        groups = min(model.balance_groups, 1)  # the whole batch is one
        return loss_and_gradients(model, batch, seed, count, smoothing, groups=groups, shards=1, jit=False)

    loss, gradients = step()
    np.testing.assert_allclose(loss, golden["loss"], rtol=relative)
    for weight, gradient in zip(model.trainable_weights, gradients, strict=True):
        wanted = golden[f"gradients/{weight.path.removeprefix(f'{model.name}/')}"].astype(np.float64)
        assert np.abs(wanted).max() > 0
        reference.assert_close(gradient, wanted, relative)


def assert_cost_is_counted(model: Any, source_length: int = 6, target_length: int = 6) -> None:
    """Asserts that `model.cost` counts the products in the graphs of forward pass and training, and sums over pairs.

    Args:
        source_length, target_length: equal if the graph has loops; all loops then have that many rounds.
    """
    sentences = 3
    batch = {
        "source": tf.ones([sentences, source_length], tf.int32),
        "target": tf.ones([sentences, target_length], tf.int32),
    }

    def forward() -> Any:
        return tf.reduce_sum(model(batch, seed=tf.constant([1, 1, 0])))

    def training() -> Any:
        with tf.GradientTape() as tape:
            loss = forward()
        return tape.gradient(loss, [w.value for w in model.trainable_weights])

    graphs = [tf.function(f, autograph=False).get_concrete_function().graph for f in (forward, training)]
    cost, of_pair = model.cost, (source_length, target_length)
    wanted = [sentences * cost.forward_flops(*of_pair), sentences * cost.training_flops(*of_pair)]
    assert [product_flops(graph, source_length) for graph in graphs] == wanted
    lengths = np.array([[7, 30, 0], [9, 4, 0]], np.int32)
    assert cost.forward_flops(*lengths) == sum(cost.forward_flops(s, t) for s, t in lengths.T.tolist())
    assert cost.activation_bytes(2, 5, 9, 4) == 2 * cost.activation_bytes(1, 5, 9, 4) > 0


def product_flops(graph: Any, rounds: int) -> int:
    """Returns the FLOPs of all matrix products in a graph of fixed shapes, 2 m k n each; loops have `rounds` rounds."""
    total = 0
    for operation in graph.get_operations():
        assert "Conv" not in operation.type
        if operation.type in ("MatMul", "BatchMatMulV2"):
            transposed = operation.get_attr("transpose_a" if operation.type == "MatMul" else "adj_x")
            inner = operation.inputs[0].shape[-2 if transposed else -1]
            total += 2 * inner * int(np.prod(operation.outputs[0].shape))
        elif operation.type in ("While", "StatelessWhile"):
            total += rounds * product_flops(graph._get_function(operation.get_attr("body").name).graph, rounds)
    return total
