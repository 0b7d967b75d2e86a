"""Label-smoothed cross entropy against its definition: the sum of -weight * q . log softmax(logits)."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.models.rnn import Rnn
from t2t_lite.models.rnn_hparams import RnnHParams
from t2t_lite.training.cross_entropy import plain_cross_entropy, smoothed_cross_entropy
from t2t_lite.training.loss import batch_loss
from tests import reference

N, V, D = 7, 11, 5
RNG = np.random.default_rng(8)
LOGITS = (3 * RNG.standard_normal((N, V))).astype("float32")
LABELS = RNG.integers(0, V, N, "int32")
WEIGHTS = np.array([1, 1, 0.25, 0, 2, 1, 0], "float32")


def _distribution(smoothing: float, over: str) -> np.ndarray:
    """q [N, V]. all: Szegedy et al. (2015), equation for q'(k); others: what tensor2tensor's code does."""
    label = np.eye(V)[LABELS]
    if over == "all":
        return (1 - smoothing) * label + smoothing / V
    return np.where(label == 1, 1 - smoothing, smoothing / (V - 1))


def _wanted(logits: np.ndarray, smoothing: float, over: str = "all") -> float:
    logp = reference.log_softmax(np.float64(logits))
    return float((WEIGHTS * -(_distribution(smoothing, over) * logp).sum(-1)).sum())


def _loss_and_gradient(
    logits: np.ndarray, smoothing: float, over: str = "all", factor: float = 1.0, jit: bool = False
) -> tuple[Any, Any]:
    @tf.function(jit_compile=jit, autograph=False)
    def both(x: Any) -> tuple[Any, Any]:
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = smoothed_cross_entropy(x, tf.eye(V), LABELS, WEIGHTS, smoothing, over, jit=jit)  # x is logits
            result = factor * loss
        return loss, tape.gradient(result, x)

    loss, gradient = both(tf.constant(logits))
    return loss.numpy(), gradient.numpy()


def _both(loss_of: Callable[[], Any], sources: Any, jit: bool = False) -> tuple[Any, Any]:
    """Loss and gradients."""

    @tf.function(jit_compile=jit, autograph=False)
    def both() -> tuple[Any, Any]:
        with tf.GradientTape() as tape:
            tape.watch(sources)
            loss = loss_of()
        return loss, tape.gradient(loss, sources)

    found: tuple[Any, Any] = both()
    return found


@pytest.mark.commit
@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("over", ["all", "others"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.3])
def test_equals_the_definition(smoothing: float, over: str, jit: bool) -> None:
    loss, _ = _loss_and_gradient(LOGITS, smoothing, over, jit=jit)
    assert loss.dtype == np.float32
    np.testing.assert_allclose(loss, _wanted(LOGITS, smoothing, over), rtol=1e-5)


@pytest.mark.commit
@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize(
    ("smoothing", "over", "factor"), [(0.0, "all", 1.0), (0.1, "all", -2.5), (0.1, "others", -2.5)]
)
def test_gradient_equals_that_of_the_definition(smoothing: float, over: str, factor: float, jit: bool) -> None:
    _, gradient = _loss_and_gradient(LOGITS, smoothing, over, factor, jit)
    step, numeric = 1e-5, np.zeros((N, V))
    for at in np.ndindex(N, V):
        moved = np.zeros((N, V))
        moved[at] = step
        above, below = (_wanted(LOGITS + sign * moved, smoothing, over) for sign in (1, -1))
        numeric[at] = (above - below) / (2 * step)
    np.testing.assert_allclose(gradient, factor * numeric, rtol=0, atol=2e-6)
    np.testing.assert_array_equal(gradient[WEIGHTS == 0], 0)


@pytest.mark.commit
@pytest.mark.parametrize(("dtype", "relative"), [("float32", 1e-5), ("bfloat16", 2**-6)])
@pytest.mark.parametrize("over", ["all", "others"])
@pytest.mark.parametrize("shape", [(1, 2, 1), (7, 11, 5), (40, 300, 16)])  # N, V, D
@pytest.mark.parametrize("jit", [False, True])
def test_values_and_gradients_are_those_of_the_plain_one(
    jit: bool, shape: tuple[int, int, int], over: str, dtype: str, relative: float
) -> None:
    positions, vocab_size, width = shape
    draw = np.random.default_rng(positions)
    x = tf.constant(draw.standard_normal((positions, width)).astype(dtype))
    table = tf.constant(np.float32(draw.standard_normal((vocab_size, width)).astype(dtype)))  # exact in either type
    labels = tf.constant(draw.integers(0, vocab_size, positions), tf.int32)
    weights = tf.constant(draw.choice([0, 0.5, 1], positions), tf.float32)

    def plain() -> Any:
        logits = tf.matmul(x, tf.cast(table, dtype), transpose_b=True)  # rounded in bfloat16, as in a model
        return plain_cross_entropy(logits, labels, weights, 0.1, over)

    wanted, wanted_gradients = _both(plain, [x, table])
    got, gradients = _both(lambda: smoothed_cross_entropy(x, table, labels, weights, 0.1, over, jit), [x, table], jit)
    np.testing.assert_allclose(got, wanted, rtol=relative, atol=1e-6)
    for gradient, other in zip(gradients, wanted_gradients, strict=True):
        got, wanted = (np.asarray(each).astype("float64") for each in (gradient, other))
        reference.assert_close(got, wanted, relative)


@pytest.mark.parametrize("over", ["all", "others"])
def test_with_the_bias_of_a_softmax_layer_it_is_the_plain_one_of_the_logits(over: str) -> None:
    model = Rnn.from_hparams(RnnHParams(num_layers=1, d_model=8), 20, 20, True)
    reference.randomise(model, 1)
    batch = {"source": np.array([[5, 9, 1], [7, 1, 0]]), "target": np.array([[4, 8, 1, 0], [6, 5, 12, 1]], "int32")}
    tables = [w for w in model.trainable_weights if w.path.endswith(("table", "softmax_bias"))]

    def both(loss_of: Any) -> tuple[Any, list[Any]]:
        with tf.GradientTape() as tape:
            loss = loss_of()
        return loss, [tf.convert_to_tensor(g) for g in tape.gradient(loss, [w.value for w in tables])]

    def plain() -> Any:
        labels = tf.reshape(batch["target"], [-1])
        weights = tf.cast(labels > 0, tf.float32) / 7.0
        return plain_cross_entropy(tf.reshape(model(batch), [-1, 20]), labels, weights, 0.1, over)

    (wanted, wanted_gradients), (got, gradients) = both(plain), both(lambda: batch_loss(model, batch, 7.0, 0.1, over))
    np.testing.assert_allclose(got, wanted, rtol=1e-5)
    assert len(tables) == 2
    for gradient, other in zip(gradients, wanted_gradients, strict=True):
        reference.assert_close(gradient.numpy(), np.float64(other), 1e-5)


@pytest.mark.parametrize("over", ["all", "others"])
def test_the_smoothed_minimum_is_the_entropy_of_the_target_distribution(over: str) -> None:
    q = _distribution(0.1, over)
    np.testing.assert_allclose(q.sum(-1), 1)
    loss, gradient = _loss_and_gradient(np.log(q).astype("float32"), 0.1, over)
    np.testing.assert_allclose(loss, (WEIGHTS * -(q * np.log(q)).sum(-1)).sum(), rtol=1e-5)
    np.testing.assert_allclose(gradient, 0, atol=1e-6)


@pytest.mark.commit
@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("shift", [1e4, -1e4, 0.0])
def test_large_logits_overflow_nothing(shift: float, jit: bool) -> None:
    logits = LOGITS * (1.0 if shift else 1e4) + shift
    loss, gradient = _loss_and_gradient(logits, 0.1, jit=jit)
    np.testing.assert_allclose(loss, _wanted(logits, 0.1), rtol=1e-3 if shift else 1e-5)  # 1e4 is accurate to 2^-11
    assert np.isfinite(gradient).all()


@pytest.mark.commit
@pytest.mark.parametrize("jit", [False, True])
def test_gradients_of_large_logits_are_as_exact_as_those_of_small_ones(jit: bool) -> None:
    large = np.float32(LOGITS + 1000)  # rounded to 2^-14; the log-sum rounded once more would show
    _, gradient = _loss_and_gradient(large, 0.1, jit=jit)
    wanted = (np.exp(reference.log_softmax(np.float64(large))) - _distribution(0.1, "all")) * WEIGHTS[:, None]
    np.testing.assert_allclose(gradient, wanted, rtol=0, atol=1e-6)


def test_for_xla_nothing_is_scattered() -> None:
    """XLA would copy the whole array of [N, V] for it."""
    x, table = tf.ones([N, D]), tf.ones([V, D])

    @tf.function(jit_compile=True, autograph=False)
    def gradient(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = smoothed_cross_entropy(x, table, LABELS, WEIGHTS, 0.1, jit=True)
        return tape.gradient(loss, x)

    assert " scatter(" not in gradient.experimental_get_compiler_ir(x)(stage="hlo")
