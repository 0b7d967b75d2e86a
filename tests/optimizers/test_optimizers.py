"""The optimizers other than Adam against their papers, in float64, and what all optimizers have in common."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite import registry
from t2t_lite.distributed.devices import Devices, make_strategy
from t2t_lite.groups import OptimizerGroup
from t2t_lite.optimizers.base import Optimizer
from t2t_lite.training.step import TrainStep
from tests import reference

SHAPES = [(7, 5), (5,), (3, 2, 4), ()]
STEPS = 20
SETTINGS: dict[str, dict[str, float]] = {
    "adam": {"adam_beta1": 0.9, "adam_beta2": 0.98, "adam_epsilon": 1e-9},
    "adamw": {"adam_beta1": 0.9, "adam_beta2": 0.98, "adam_epsilon": 1e-8, "weight_decay": 0.1},
    "sgd": {},
    "nesterov": {"momentum": 0.9},
    "adafactor": {},
}

Arrays = list[np.ndarray]


def _make(name: str, variables: Any) -> Optimizer:
    made: Optimizer = registry.OPTIMIZERS.get(name)(variables, **SETTINGS[name])
    return made


def _rate(step: int) -> float:
    return 1e-3 * step if step <= 10 else 5e-3  # rises, then halves at once: a velocity must follow the rate


def _start_and_gradients() -> tuple[Arrays, list[Arrays]]:
    rng = np.random.default_rng(6)
    start = [rng.standard_normal(shape) for shape in SHAPES]
    scales = [10.0 ** rng.integers(-1, 2, shape) for shape in SHAPES]
    return start, [[s * rng.standard_normal(s.shape) for s in scales] for _ in range(STEPS)]


def _sgd(weights: Arrays, gradients: list[Arrays]) -> None:
    for t, of_step in enumerate(gradients, start=1):
        for weight, g in zip(weights, of_step, strict=True):
            weight -= _rate(t) * g


def _fairseq_adam(weights: Arrays, gradients: list[Arrays]) -> None:
    """The plain path of fairseq/optim/adam.py, with weight decay, line by line."""
    means, squares = ([np.zeros_like(w) for w in weights] for _ in range(2))
    for t, of_step in enumerate(gradients, start=1):
        for weight, exp_avg, exp_avg_sq, g in zip(weights, means, squares, of_step, strict=True):
            exp_avg *= 0.9
            exp_avg += (1 - 0.9) * g
            exp_avg_sq *= 0.98
            exp_avg_sq += (1 - 0.98) * g * g
            denom = np.sqrt(exp_avg_sq) + 1e-8
            step_size = _rate(t) * (1 - 0.98**t) ** 0.5 / (1 - 0.9**t)
            weight += -0.1 * _rate(t) * weight
            weight += -step_size * exp_avg / denom


def _fairseq_nag(weights: Arrays, gradients: list[Arrays]) -> None:
    """fairseq/optim/nag.py without weight decay, line by line."""
    buffers, lr_old = [np.zeros_like(w) for w in weights], _rate(1)
    for t, of_step in enumerate(gradients, start=1):
        lr, lr_correct = _rate(t), _rate(t) / lr_old
        for weight, buf, g in zip(weights, buffers, of_step, strict=True):
            weight += 0.9 * 0.9 * lr_correct * buf
            weight += -(1 + 0.9) * lr * g
            buf *= 0.9 * lr_correct
            buf += -lr * g
        lr_old = lr


def _adafactor(weights: Arrays, gradients: list[Arrays]) -> None:
    """Algorithms 4 and 5 with sums, as printed; the matrices of a weight with three axes are separate but for RMS."""
    rms = lambda x: np.sqrt(np.mean(np.square(x)))  # noqa: E731
    rows, columns, full = ({} for _ in range(3))
    for t, of_step in enumerate(gradients, start=1):
        beta2 = 1 - t**-0.8
        for i, g in enumerate(of_step):
            square = g**2 + 1e-30
            if g.ndim < 2:
                v = full[i] = beta2 * full.get(i, 0) + (1 - beta2) * square
            else:
                r = rows[i] = beta2 * rows.get(i, 0) + (1 - beta2) * square.sum(-1)
                c = columns[i] = beta2 * columns.get(i, 0) + (1 - beta2) * square.sum(-2)
                v = np.einsum("...i,...j->...ij", r, c) / r.sum(-1)[..., None, None]
            u = g / np.sqrt(v)
            weights[i] -= _rate(t) * max(1e-3, rms(weights[i])) * u / max(1.0, rms(u) / 1.0)


@pytest.mark.commit
@pytest.mark.parametrize(
    ("name", "expected"),
    [("sgd", _sgd), ("adamw", _fairseq_adam), ("nesterov", _fairseq_nag), ("adafactor", _adafactor)],
)
def test_equals_float64_over_20_steps(name: str, expected: Callable[[Arrays, list[Arrays]], None]) -> None:
    start, gradients = _start_and_gradients()
    variables = [tf.Variable(w.astype("float32")) for w in start]
    optimizer = _make(name, variables)
    update = tf.function(optimizer.apply, autograph=False)
    for t, of_step in enumerate(gradients, start=1):
        numbers = [np.float32(n) for n in optimizer.numbers(_rate(t), t)]
        update([tf.constant(g, tf.float32) for g in of_step], *numbers)
    weights = [np.array(w) for w in start]
    expected(weights, gradients)
    for variable, first, w in zip(variables, start, weights, strict=True):
        np.testing.assert_allclose(variable.numpy() - first, w - first, rtol=1e-4, atol=2e-6)
        assert np.abs(w - first).max() > 1e-3
        reference.assert_close(variable.numpy(), w, 1e-5)


def test_without_weight_decay_it_is_adam() -> None:
    start, gradients = _start_and_gradients()
    found = []
    for make in (_make("adam", []).__class__, functools.partial(_make("adamw", []).__class__, weight_decay=0.0)):
        variables = [tf.Variable(w.astype("float32")) for w in start]
        optimizer = make(variables, **SETTINGS["adam"])
        for t, of_step in enumerate(gradients, start=1):
            optimizer.apply([tf.constant(g, tf.float32) for g in of_step], *optimizer.numbers(_rate(t), t))
        found.append([variable.numpy() for variable in variables])
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


def test_nesterov_is_sutskevers_velocity_looked_at_where_the_gradient_is_taken() -> None:
    """On f(x) = x^2 / 2: v = 0.9 v - rate * f'(theta + 0.9 v), theta += v; ours is theta + 0.9 v."""
    theta, velocity = 1.0, 0.0
    variable = tf.Variable(1.0)
    nesterov = _make("nesterov", [variable])
    for _ in range(STEPS):
        velocity = 0.9 * velocity - 0.1 * (theta + 0.9 * velocity)
        theta += velocity
        nesterov.apply([variable.read_value()], np.float32(0.1))
        assert variable.numpy() == pytest.approx(theta + 0.9 * velocity, abs=1e-6)


@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_adams_rule_is_what_tensorflows_kernel_makes(name: str) -> None:
    start, gradients = _start_and_gradients()
    one, two = ([tf.Variable(w.astype("float32")) for w in start] for _ in range(2))
    ours, kernels = _make(name, one), _make(name, two)
    for t, of_step in enumerate(gradients, start=1):
        values, numbers = [tf.constant(g, tf.float32) for g in of_step], ours.numbers(_rate(t), t)
        Optimizer.apply(ours, values, *numbers)
        kernels.apply(values, *numbers)
    for a, b in zip(one, two, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-7)


@pytest.mark.commit
@pytest.mark.parametrize("name", SETTINGS)
def test_apply_on_a_condition_makes_the_same_update_with_xla_or_none_at_all(name: str) -> None:
    start, gradients = _start_and_gradients()

    def state(optimizer: Optimizer) -> Arrays:
        return [v.numpy() for v in (*optimizer.variables, *(s for slots in optimizer.slots for s in slots.values()))]

    plain, xla = (_make(name, [tf.Variable(w.astype("float32")) for w in start]) for _ in range(2))
    update = tf.function(xla.apply, autograph=False, jit_compile=True)
    for t in range(1, 6):
        values = [tf.constant(g, tf.float32) for g in gradients[t]]
        numbers = [tf.constant(n, tf.float32) for n in plain.numbers(_rate(t), t)]
        plain.apply(values, *numbers)
        update(values, *numbers, condition=tf.constant(True))
    for a, b in zip(state(plain), state(xla), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)
    before = state(xla)
    update([np.nan * g for g in values], *numbers, condition=tf.constant(False))
    for a, b in zip(before, state(xla), strict=True):
        np.testing.assert_array_equal(a, b)
    xla.reset(9)
    assert xla.start == 9
    assert not any(np.any(s) for s in state(xla)[len(start) :])


@pytest.mark.nightly
def test_with_xla_a_models_updates_are_those_without(make_model: Callable[..., Any]) -> None:
    """Checks Adafactor, whose update is more than a rule for each number; test_xla.py checks Adam."""
    random = np.random.default_rng(3)
    batch = {side: random.integers(3, 50, (6, 7), dtype=np.int32) for side in ("source", "target")}
    found = []
    for jit in (False, True):
        model = make_model()
        optimizer = _make("adafactor", [w.value for w in model.trainable_weights])
        parts = model, optimizer, make_strategy(Devices(1)), OptimizerGroup(clip_norm=1.0)
        step = TrainStep(*parts, accumulate=2, seed=1, jit=jit)
        losses = []
        for number in range(1, 6):
            step(batch, number, 0.01)
            losses.append(step.outcome().loss)
        found.append((losses, [v.numpy() for v in optimizer.variables]))
    (plain_losses, plain), (xla_losses, xla) = found
    assert plain_losses[-1] < plain_losses[0] - 1e-3
    np.testing.assert_allclose(xla_losses, plain_losses, rtol=1e-5)
    for a, b in zip(plain, xla, strict=True):
        np.testing.assert_allclose(b, a, rtol=0, atol=1e-5)


def test_adafactor_keeps_rows_and_columns_of_matrices() -> None:
    adafactor = _make("adafactor", [tf.Variable(tf.zeros(shape)) for shape in SHAPES])
    shapes = [{name: tuple(slot.shape) for name, slot in slots.items()} for slots in adafactor.slots]
    assert shapes == [
        {"rows": (7,), "columns": (5,)},
        {"v": (5,)},
        {"rows": (3, 2), "columns": (3, 4)},
        {"v": ()},
    ]


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e15])
def test_adafactor_stays_finite_where_most_gradients_are_zero(scale: float) -> None:
    """As in an embedding. Products of rows and columns would be too small or too large for float32."""
    variable = tf.Variable(tf.ones([6, 4]))
    adafactor = _make("adafactor", [variable])
    gradient = np.zeros((6, 4), np.float32)
    gradient[1, 2] = scale
    for t in range(1, STEPS):
        adafactor.apply([tf.constant(gradient)], *(np.float32(n) for n in adafactor.numbers(0.01, t)))
    moved = np.abs(variable.numpy() - 1)
    assert np.isfinite(moved).all()
    assert moved[1, 2] > 0.1
    assert np.count_nonzero(moved) == 1
