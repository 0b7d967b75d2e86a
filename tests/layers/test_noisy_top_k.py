"""Noisy top-k gating against NumPy and against tensor2tensor's own, with gradients."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.layers import noisy_top_k
from t2t_lite.layers.noisy_top_k import NoisyTopK, cv_squared, standard_normal, top_k_gates
from t2t_lite.ops.batch_shards import batch_shards
from tests import moe_reference, reference

D, N = 5, 6
RNG = np.random.default_rng(1)
X = RNG.standard_normal((3, 4, D)).astype("float32")
SEED = np.array([3, -4, 0], "int32")


def _layer(k: int) -> NoisyTopK:
    layer = NoisyTopK(N, k, name="gating")
    layer.build((None, None, D))
    for w in layer.weights:
        assert not np.asarray(w).any()
        w.assign(RNG.standard_normal(tuple(w.shape)))
    return layer


@pytest.mark.parametrize("k", [1, 2, N])
@pytest.mark.parametrize("seed", [None, SEED], ids=["inference", "training"])
def test_gates_and_load_are_the_equations(k: int, seed: np.ndarray | None) -> None:
    layer = _layer(k)
    got = layer(X, seed=seed)
    z = None if seed is None else np.asarray(standard_normal(np.zeros((3, 4, N)), seed), np.float64)
    gate, noise = (np.asarray(w, np.float64) for w in layer.weights)
    for place in np.ndindex(3, 4):
        shares, load = moe_reference.gates(X[place].astype("float64"), gate, noise, k, None if z is None else z[place])
        reference.assert_close(got.shares[place], shares, 1e-5)
        reference.assert_close(got.load[place], load, 1e-5)
        experts, weights = (np.asarray(values[place]) for values in (got.experts, got.weights))
        np.testing.assert_allclose(weights, shares[experts], rtol=1e-4)
        assert (np.diff(weights) <= 0).all()


GOLDEN = Path(__file__).parents[1] / "golden" / "tensor2tensor_moe.npz"


@pytest.mark.parametrize(("case", "k"), [("k1", 1), ("k2", 2), ("k4", 4), ("all", 6)])
def test_gates_load_losses_and_gradients_are_tensor2tensors(case: str, k: int) -> None:
    with np.load(GOLDEN, allow_pickle=False) as arrays:
        stored = {name.partition("/")[2]: array for name, array in arrays.items() if name.startswith(f"{case}/")}
    inputs = [tf.constant(stored[name]) for name in ("x", "gate", "noise")]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        x, gate, noise = inputs
        scale = tf.math.softplus(x @ noise) + 1e-2
        gates = top_k_gates(x @ gate, x @ gate + stored["z"] * scale, scale, k)
        importance, load = (tf.reduce_sum(each, 0) for each in (gates.shares, gates.load))
        loss = tf.reduce_sum(gates.shares * stored["values"]) + tf.reduce_sum(cv_squared(tf.stack([importance, load])))
    reference.assert_close(gates.shares, stored["gates"].astype("float64"), 1e-5)
    reference.assert_close(load, stored["load"].astype("float64"), 1e-5)
    np.testing.assert_allclose(loss, stored["loss"], rtol=1e-5)
    for got, name in zip(tape.gradient(loss, inputs), ("x", "gate", "noise"), strict=True):
        reference.assert_close(got, stored[f"d_{name}"].astype("float64"), 1e-4)


def test_noise_is_normal_and_a_function_of_the_seed_alone() -> None:
    like = np.zeros((100, 50, 8), "float32")
    z = np.asarray(standard_normal(like, SEED))
    np.testing.assert_array_equal(z, standard_normal(like, SEED))
    np.testing.assert_allclose([z.mean(), z.std(), (z**3).mean(), (z**4).mean()], [0, 1, 0, 3], atol=0.1)
    assert np.isfinite(z).all()
    compiled = tf.function(lambda: standard_normal(tf.constant(like), tf.constant(SEED)), jit_compile=True)()
    np.testing.assert_allclose(compiled, z, rtol=1e-3, atol=1e-6)  # far from 0, erfinv rounds differently


@pytest.mark.parametrize("jit", [False, True])
def test_no_draw_is_infinite(monkeypatch: pytest.MonkeyPatch, jit: bool) -> None:
    """Checks the extreme draws; otherwise one value in millions would be infinite, which ends a whole training."""

    def ends(like: Any, seed: Any) -> Any:
        return tf.constant(np.array([0, 2**9, 2**31, 2**32 - 2**10, 2**32 - 1], np.uint32))

    monkeypatch.setattr(noisy_top_k, "random_bits", ends)
    z = tf.function(lambda: standard_normal(tf.zeros(5), SEED), jit_compile=jit)().numpy()
    np.testing.assert_allclose(z, [-5.295, -5.090, 1.494e-7, 5.090, 5.295], rtol=1e-3)


def test_a_shard_draws_the_noise_that_the_whole_draws_for_its_rows() -> None:
    like = np.zeros((5, 3, 3), "float32")
    whole, start = np.asarray(standard_normal(like, SEED)), 0
    for rows, seed in batch_shards({"target": np.zeros((5, 2), "int32")}, SEED, 2):
        number = len(rows["target"])
        np.testing.assert_array_equal(standard_normal(like[:number], seed), whole[start : start + number])
        start += number


def test_the_coefficient_of_variation() -> None:
    x = np.abs(RNG.standard_normal((2, 3, N)))
    wanted = np.array([[moe_reference.cv_squared(row) for row in rows] for rows in x])
    reference.assert_close(cv_squared(x.astype("float32")), wanted, 1e-5)
    assert float(cv_squared(np.zeros(4, "float32"))) == 0
    assert float(cv_squared(np.float32([1, 0, 0, 0]))) == pytest.approx(3)  # all on one of n: n - 1
