"""Adam against Kingma and Ba (2015), in float64."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.optimizers.adam import Adam
from tests import reference


def _adam(start: list[np.ndarray], gradients: list[list[np.ndarray]], beta2: float, epsilon: float, form: int) -> Any:
    """The final weights of float64 Adam. form 1: Algorithm 1; 2: the end of section 2, "at the expense of clarity"."""
    weights, m, v = ([f(w) for w in start] for f in (np.copy, np.zeros_like, np.zeros_like))
    for t, of_step in enumerate(gradients, start=1):
        for i, g in enumerate(of_step):
            m[i] = 0.9 * m[i] + (1 - 0.9) * g
            v[i] = beta2 * v[i] + (1 - beta2) * g**2
            if form == 1:
                weights[i] -= _rate(t) * (m[i] / (1 - 0.9**t)) / (np.sqrt(v[i] / (1 - beta2**t)) + epsilon)
            else:
                weights[i] -= _rate(t) * np.sqrt(1 - beta2**t) / (1 - 0.9**t) * m[i] / (np.sqrt(v[i]) + epsilon)
    return weights


def _rate(step: int) -> float:
    return 1e-3 * step  # differs in each step, as in a warm-up


# With the paper's epsilon both forms agree. Ours is the second, as documented; only a large epsilon shows that.
@pytest.mark.parametrize(("beta2", "epsilon", "form"), [(0.98, 1e-9, 1), (0.98, 1e-9, 2), (0.999, 1e-3, 2)])
def test_equals_adam_in_float64_over_20_steps(beta2: float, epsilon: float, form: int) -> None:
    rng = np.random.default_rng(6)
    start = [rng.standard_normal(shape) for shape in [(7, 5), (5,), (3, 2, 4)]]
    gradients = [
        [10.0 ** rng.integers(-3, 2, w.shape) * rng.standard_normal(w.shape) for w in start] for _ in range(20)
    ]
    variables = [tf.Variable(w.astype("float32")) for w in start]
    adam = Adam(variables, 0.9, beta2, epsilon)
    update = tf.function(adam.apply, autograph=False)
    for t, of_step in enumerate(gradients, start=1):
        update([tf.constant(g, tf.float32) for g in of_step], np.float32(adam.numbers(_rate(t), t)[0]))
    for variable, first, w in zip(variables, start, _adam(start, gradients, beta2, epsilon, form), strict=True):
        # Compares changes; the weights themselves would hide what the optimiser did. Weights are accurate to 2^-23.
        np.testing.assert_allclose(variable.numpy() - first, w - first, rtol=1e-4, atol=2e-6)
        assert np.abs(w - first).max() > 1e-2
        reference.assert_close(variable.numpy(), w, 1e-5)


def test_the_first_step_has_the_size_of_the_learning_rate() -> None:
    variable = tf.Variable([1.0, 1.0, 1.0])
    adam = Adam([variable], 0.9, 0.98, 1e-9)
    adam.apply([tf.constant([1e-3, -5.0, 0.0])], np.float32(adam.numbers(0.25, 1)[0]))
    np.testing.assert_allclose(variable.numpy(), [0.75, 1.25, 1.0], rtol=1e-5)


def test_moments_are_as_many_as_the_variables_and_start_at_zero() -> None:
    variables = [tf.Variable(tf.ones([2, 3])), tf.Variable(tf.ones([4]))]
    adam = Adam(variables, 0.9, 0.98, 1e-9)
    assert [tuple(w.shape) for w in adam.m + adam.v] == [(2, 3), (4,), (2, 3), (4,)]
    assert not any(np.any(w.numpy()) for w in adam.m + adam.v)
    assert not any(w.trainable for w in adam.m + adam.v)
    with pytest.raises(ValueError, match="shorter"):
        adam.apply([tf.ones([2, 3])], 0.1)
