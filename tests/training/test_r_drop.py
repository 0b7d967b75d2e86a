"""R-Drop against its equation in NumPy; its gradients against finite differences and plain differentiation."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite import config, registry
from t2t_lite.errors import UsageError
from t2t_lite.layers.dropout import second_pass
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.training.build import training_cost
from t2t_lite.training.gradients import loss_and_gradients
from t2t_lite.training.r_drop import r_drop_loss
from tests import reference

N, V = 5, 7
RNG = np.random.default_rng(4)
LOGITS = (2 * RNG.standard_normal((2, N, V))).astype("float32")
LABELS = RNG.integers(0, V, N, "int32")
WEIGHTS = np.array([1, 0.25, 0, 2, 1], "float32")
ALPHA, SEED, TOKENS = 5.0, np.array([3, -4, 0], "int32"), 20.0


def _equation(logits: np.ndarray, smoothing: float, over: str) -> np.ndarray:
    """Both sums of the equation, position by position, in float64."""
    entropy = divergence = 0.0
    for n in range(N):
        q = np.full(V, smoothing / (V if over == "all" else V - 1))
        q[LABELS[n]] = 1 - smoothing + (smoothing / V if over == "all" else 0)
        p1, p2 = (reference.softmax(np.float64(each[n])) for each in logits)
        entropy -= WEIGHTS[n] * (q * (np.log(p1) + np.log(p2))).sum() / 2
        divergence += WEIGHTS[n] * ((p1 * np.log(p1 / p2)).sum() + (p2 * np.log(p2 / p1)).sum())
    return np.array([entropy, divergence])


@pytest.mark.parametrize(("smoothing", "over"), [(0.0, "all"), (0.1, "all"), (0.1, "others")])
@pytest.mark.parametrize("jit", [pytest.param(True, marks=pytest.mark.nightly), False])
def test_losses_and_gradients_are_those_of_the_equation(smoothing: float, over: str, jit: bool) -> None:
    factors = np.array([1.0, ALPHA / 4])

    @tf.function(jit_compile=jit, autograph=False)
    def both(*logits: Any) -> tuple[Any, Any]:
        with tf.GradientTape() as tape:
            tape.watch(logits)
            loss = r_drop_loss(logits, tf.eye(V), LABELS, WEIGHTS, smoothing, over, alpha=ALPHA, jit=jit)
            twice = 2 * loss
        return loss, tape.gradient(twice, logits)

    loss, gradients = both(*map(tf.constant, LOGITS))
    np.testing.assert_allclose(loss, _equation(LOGITS, smoothing, over)[0], rtol=1e-5)
    numeric = np.zeros(LOGITS.shape)
    for at in np.ndindex(LOGITS.shape):
        moved = np.zeros(LOGITS.shape)
        moved[at] = 1e-5
        above, below = (factors @ _equation(LOGITS + sign * moved, smoothing, over) for sign in (1, -1))
        numeric[at] = (above - below) / 2e-5
    np.testing.assert_allclose(np.stack(gradients), 2 * numeric, rtol=0, atol=2e-5)


def _batch() -> dict[str, np.ndarray]:
    draw = np.random.default_rng(1)
    batch = {side: draw.integers(2, 40, (4, length), "int32") for side, length in (("source", 6), ("target", 5))}
    batch["target"][2:, 3:] = 0
    return batch


def _gradients(model: Any, shards: int, jit: bool = False) -> list[np.ndarray]:
    spec = {name: tf.TensorSpec([None, None], tf.int32) for name in _batch()}

    @tf.function(input_signature=[spec], autograph=False, jit_compile=jit)
    def run(batch: Any) -> Any:
        how: dict[str, Any] = {"groups": 0, "shards": shards, "jit": jit, "r_drop": ALPHA}
        loss, gradients = loss_and_gradients(model, batch, SEED, TOKENS, (0.1, "all"), **how)
        return [loss, *gradients]

    return [value.numpy() for value in run(_batch())]


@pytest.fixture(scope="module")
def model(make_model: Callable[..., Any]) -> Any:
    return make_model(40, dropout=0.3, relu_dropout=0.1)


@pytest.fixture(scope="module")
def plain(model: Any) -> list[np.ndarray]:
    """The loss, which lacks the divergence, and the gradients of both together, by plain differentiation."""
    batch, weights = _batch(), [weight.value for weight in model.trainable_weights]
    real = tf.cast(batch["target"] > 0, tf.float32) / TOKENS
    with tf.GradientTape() as tape:
        first, second = (tf.math.log_softmax(model(batch, seed=seed)) for seed in (SEED, second_pass(SEED)))
        q = 0.9 * tf.one_hot(batch["target"], 40) + 0.1 / 40
        entropy = tf.reduce_sum(-tf.reduce_sum(q * (first + second) / 2, -1) * real)
        apart = tf.reduce_sum((tf.exp(first) - tf.exp(second)) * (first - second), -1)  # the sum of both divergences
        whole = entropy + ALPHA / 4 * tf.reduce_sum(apart * real)
    assert float(whole - entropy) > 0.05  # the masks differ
    return [entropy.numpy(), *(tf.convert_to_tensor(g).numpy() for g in tape.gradient(whole, weights))]


@pytest.mark.parametrize(
    ("shards", "jit"),
    [
        pytest.param(1, False, marks=pytest.mark.commit),
        *(pytest.param(*case, marks=pytest.mark.nightly) for case in ((3, False), (1, True))),
    ],
)
def test_a_model_has_the_gradients_of_plain_differentiation(
    model: Any, plain: list[np.ndarray], shards: int, jit: bool
) -> None:
    for one, other in zip(_gradients(model, shards, jit), plain, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5 * np.abs(other).max())


def test_the_cost_is_that_of_two_passes(model: Any) -> None:
    hparams = config.replace(model.hparams, r_drop=ALPHA)
    once, twice = (training_cost(model, each) for each in (model.hparams, hparams))
    assert twice.training_flops(7, 9) == 2 * once.training_flops(7, 9) == 2 * model.cost.training_flops(7, 9)
    assert twice.activation_bytes(3, 7, 9, 4) == 2 * model.cost.activation_bytes(3, 7, 9, 4)


def test_it_needs_dropout() -> None:
    with pytest.raises(UsageError, match=r"r_drop=5\.0 compares .* dropout, attention_dropout, relu_dropout are"):
        config.replace(registry.hparams("tiny"), r_drop=5.0)
    assert TransformerHParams().r_drop == 0
