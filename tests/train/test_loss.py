"""Label-smoothed cross entropy against its definition: the sum of -weight * q . log softmax(logits)."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.train.loss import smoothed_cross_entropy
from tests import reference

N, V = 7, 11
RNG = np.random.default_rng(8)
LOGITS = (3 * RNG.standard_normal((N, V))).astype("float32")
LABELS = RNG.integers(0, V, N, "int32")
WEIGHTS = np.array([1, 1, 0.25, 0, 2, 1, 0], "float32")


def _wanted(logits: np.ndarray, smoothing: float, weights: np.ndarray = WEIGHTS) -> float:
    """Section 5.4 and Szegedy et al. (2015), equation for q'(k)."""
    q = (1 - smoothing) * np.eye(V)[LABELS] + smoothing / V
    return float((weights * -(q * reference.log_softmax(np.float64(logits))).sum(-1)).sum())


def _loss_and_gradient(logits: np.ndarray, smoothing: float, factor: float = 1.0, jit: bool = False) -> tuple[Any, Any]:
    @tf.function(jit_compile=jit)
    def both(x: Any) -> tuple[Any, Any]:
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = smoothed_cross_entropy(x, LABELS, WEIGHTS, smoothing)
            result = factor * loss
        return loss, tape.gradient(result, x)

    loss, gradient = both(tf.constant(logits))
    return loss.numpy(), gradient.numpy()


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.3])
def test_equals_the_definition(smoothing: float) -> None:
    loss, _ = _loss_and_gradient(LOGITS, smoothing)
    assert loss.dtype == np.float32
    np.testing.assert_allclose(loss, _wanted(LOGITS, smoothing), rtol=1e-5)


def test_without_smoothing_it_is_the_log_probability_of_the_labels() -> None:
    logp = reference.log_softmax(np.float64(LOGITS))[np.arange(N), LABELS]
    np.testing.assert_allclose(_loss_and_gradient(LOGITS, 0.0)[0], -(WEIGHTS * logp).sum(), rtol=1e-5)


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize(("smoothing", "factor"), [(0.0, 1.0), (0.1, -2.5)])
def test_gradient_equals_that_of_the_definition(smoothing: float, factor: float, jit: bool) -> None:
    _, gradient = _loss_and_gradient(LOGITS, smoothing, factor, jit)
    step, numeric = 1e-5, np.zeros((N, V))
    for at in np.ndindex(N, V):
        moved = np.zeros((N, V))
        moved[at] = step
        numeric[at] = (_wanted(LOGITS + moved, smoothing) - _wanted(LOGITS - moved, smoothing)) / (2 * step)
    np.testing.assert_allclose(gradient, factor * numeric, rtol=0, atol=2e-6)
    np.testing.assert_array_equal(gradient[WEIGHTS == 0], 0)


def test_the_smoothed_minimum_is_the_entropy_of_the_target_distribution() -> None:
    q = 0.9 * np.eye(V)[LABELS] + 0.1 / V
    loss, gradient = _loss_and_gradient(np.log(q).astype("float32"), 0.1)
    np.testing.assert_allclose(loss, (WEIGHTS * -(q * np.log(q)).sum(-1)).sum(), rtol=1e-5)
    np.testing.assert_allclose(gradient, 0, atol=1e-6)


@pytest.mark.parametrize("shift", [1e4, -1e4, 0.0])
def test_large_logits_overflow_nothing(shift: float) -> None:
    logits = LOGITS * (1.0 if shift else 1e4) + shift
    loss, gradient = _loss_and_gradient(logits, 0.1)
    np.testing.assert_allclose(loss, _wanted(logits, 0.1), rtol=1e-3 if shift else 1e-5)  # 1e4 is known to 2^-11
    assert np.isfinite(gradient).all()


def test_logits_rounded_to_bfloat16_lose_no_more_than_their_rounding() -> None:
    # The model casts its logits to float32 before they come here; the loss itself adds no error of bfloat16.
    rounded = np.float32(LOGITS.astype("bfloat16"))
    loss, _ = _loss_and_gradient(rounded, 0.1)
    np.testing.assert_allclose(loss, _wanted(rounded, 0.1), rtol=1e-5)
    np.testing.assert_allclose(loss, _wanted(LOGITS, 0.1), rtol=2**-6)


def test_no_position_at_all_is_zero() -> None:
    empty = smoothed_cross_entropy(tf.zeros([0, V]), tf.zeros([0], tf.int32), tf.zeros([0]), 0.1)
    assert empty.numpy() == 0
