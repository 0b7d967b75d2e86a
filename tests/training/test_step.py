"""One update against plain NumPy, and what must not change it: padding, packing, numbers that are not finite."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.distributed.devices import Devices, make_strategy
from t2t_lite.groups import OptimizerGroup
from t2t_lite.optimizers.adam import Adam
from t2t_lite.training.step import TrainStep

Array = np.ndarray
VOCAB, SMOOTHING, RATE = 50, 0.1, 1e-3


class Setup:
    """A model, its optimizer and its step, which can be put back to the start."""

    def __init__(self, model: Any, **options: Any) -> None:
        self.model = model
        self.adam = Adam([w.value for w in model.trainable_weights], 0.9, 0.98, 1e-9)
        how = {name: options.pop(name) for name in ("accumulate", "packed") if name in options}
        parts = model, self.adam, make_strategy(Devices(1)), OptimizerGroup(**options)
        self.step = TrainStep(*parts, seed=1, jit=False, **{"accumulate": 4, **how})
        self.start = self.state()

    def state(self) -> list[Array]:
        return [v.numpy() for v in (*self.adam.variables, *self.adam.m, *self.adam.v)]

    def reset(self) -> None:
        for variable, value in zip((*self.adam.variables, *self.adam.m, *self.adam.v), self.start, strict=True):
            variable.assign(value)

    def after(self, batch: dict[str, Array], step: int = 1, rate: float = RATE) -> tuple[float, float, list[Array]]:
        """(loss, gradient norm, weights and moments) after one update from the start."""
        self.reset()
        self.step(batch, step, rate)
        loss, norm, *_ = self.step.outcome()
        return loss, norm, self.state()


@pytest.fixture(scope="module")
def plain(make_model: Callable[..., Any]) -> Setup:
    return Setup(make_model(VOCAB))


@pytest.fixture(scope="module")
def clipped(make_model: Callable[..., Any]) -> Setup:
    return Setup(make_model(VOCAB, dropout=0.2), clip_norm=0.05)


def _pairs(lengths: list[tuple[int, int]], seed: int = 3) -> list[tuple[list[int], list[int]]]:
    random = np.random.default_rng(seed)
    return [tuple([*random.integers(3, VOCAB, n - 1).tolist(), 1] for n in pair) for pair in lengths]  # type: ignore[misc]


def _batch(pairs: list[tuple[list[int], list[int]]], rows: int, source: int, target: int) -> dict[str, Array]:
    arrays = {"source": np.zeros((rows, source), np.int32), "target": np.zeros((rows, target), np.int32)}
    for r, pair in enumerate(pairs):
        for ids, array in zip(pair, arrays.values(), strict=True):
            array[r, : len(ids)] = ids
    return arrays


# 6 pairs of unequal lengths: of the four parts of 8 rows, one is empty. (No length is 1: outside of a graph Keras warns
# of a softmax over one place.)
PAIRS = _pairs([(9, 7), (2, 3), (5, 12), (7, 2), (9, 11), (4, 3)])


def _by_hand(setup: Setup, pairs: list[tuple[list[int], list[int]]]) -> tuple[float, list[Array]]:
    """Loss and gradients of all pairs, one pair at a time, without padding, smoothed labels written out."""
    setup.reset()
    tokens = sum(len(target) for _, target in pairs)
    total = 0.0
    gradients = [np.zeros(v.shape, np.float64) for v in setup.adam.variables]
    for source, target in pairs:
        q = np.full((len(target), VOCAB), SMOOTHING / VOCAB)
        q[np.arange(len(target)), target] += 1 - SMOOTHING
        with tf.GradientTape() as tape:
            logits = setup.model({"source": np.array([source]), "target": np.array([target])})
            loss = -tf.reduce_sum(q.astype(np.float32) * tf.nn.log_softmax(logits[0])) / tokens
        total += float(loss)
        for i, gradient in enumerate(tape.gradient(loss, setup.adam.variables)):
            gradients[i] += tf.convert_to_tensor(gradient).numpy()
    return total, gradients


@pytest.mark.commit
def test_an_update_is_that_of_the_whole_batch_and_of_adam_as_published(plain: Setup) -> None:
    loss, gradients = _by_hand(plain, PAIRS)
    got_loss, got_norm, got = plain.after(_batch(PAIRS, 8, 9, 12))
    assert got_loss == pytest.approx(loss, rel=1e-5)
    assert got_norm == pytest.approx(np.sqrt(sum((g**2).sum() for g in gradients)), rel=1e-5)
    count = len(gradients)
    for i, gradient in enumerate(gradients):
        m, v = 0.1 * gradient, 0.02 * gradient**2
        np.testing.assert_allclose(got[count + i], m, rtol=1e-3, atol=1e-7)
        np.testing.assert_allclose(got[2 * count + i], v, rtol=2e-3, atol=1e-9)
        # Kingma and Ba's first form, with the bias corrections on the moments. Where the gradient is almost zero,
        # rounding decides its sign, and so Adam's first step.
        weight = plain.start[i] - RATE * (m / (1 - 0.9)) / (np.sqrt(v / (1 - 0.98)) + 1e-9)
        clear = np.abs(gradient) > 1e-5
        np.testing.assert_allclose(got[i][clear], weight[clear], rtol=0, atol=1e-6)
        assert np.abs(got[i] - plain.start[i]).max() <= RATE * 1.001
    assert sum(np.abs(g).max() > 1e-5 for g in gradients) == count  # every weight learns


def test_padding_changes_neither_loss_nor_gradients(plain: Setup) -> None:
    loss, norm, state = plain.after(_batch(PAIRS, 8, 9, 12))
    for rows, source, target in ((16, 9, 12), (8, 20, 31), (7, 9, 12), (25, 10, 13)):
        padded_loss, padded_norm, padded = plain.after(_batch(PAIRS, rows, source, target))
        assert padded_loss == pytest.approx(loss, rel=1e-5)
        assert padded_norm == pytest.approx(norm, rel=1e-5)
        count = len(plain.adam.variables)
        for before, now in zip(state[count:], padded[count:], strict=True):  # the moments, which are the gradients
            np.testing.assert_allclose(now, before, rtol=1e-3, atol=1e-7)


def test_a_batch_of_nothing_but_padding_is_no_update_and_no_error(plain: Setup) -> None:
    loss, norm, state = plain.after(_batch([], 8, 5, 5))
    assert (loss, norm) == (0.0, 0.0)
    for before, now in zip(plain.start, state, strict=True):
        np.testing.assert_array_equal(now, before)


@pytest.mark.commit
def test_packed_rows_give_the_loss_and_gradients_of_separate_rows(plain: Setup, make_model: Callable[..., Any]) -> None:
    loss, norm, state = plain.after(_batch(PAIRS, 8, 9, 12))
    packed = Setup(make_model(VOCAB), packed=True, accumulate=2)
    names = [side + kind for side in ("source", "target") for kind in ("", "_segment", "_position")]
    batch = {name: np.zeros((2, 30), np.int32) for name in names}
    for row, members in enumerate(([0, 1, 2], [3, 4, 5])):
        for side in (0, 1):
            column = 0
            name = ("source", "target")[side]
            for slot, pair in enumerate(members):
                ids = PAIRS[pair][side]
                here = (row, slice(column, column + len(ids)))
                batch[name][here], batch[f"{name}_segment"][here] = ids, slot + 1
                batch[f"{name}_position"][here] = np.arange(len(ids))
                column += len(ids)
    packed_loss, packed_norm, got = packed.after(batch)
    assert packed_loss == pytest.approx(loss, rel=1e-5)
    assert packed_norm == pytest.approx(norm, rel=1e-5)
    count = len(packed.adam.variables)
    for before, now in zip(state[count:], got[count:], strict=True):
        np.testing.assert_allclose(now, before, rtol=1e-3, atol=1e-7)


@pytest.mark.commit
def test_a_gradient_above_clip_norm_is_scaled_down_to_it(clipped: Setup) -> None:
    _, norm, state = clipped.after(_batch(PAIRS, 8, 9, 12))
    assert norm > 0.5  # before clipping
    count = len(clipped.adam.variables)
    gradient = [m / 0.1 for m in state[count : 2 * count]]
    assert np.sqrt(sum((g.astype(np.float64) ** 2).sum() for g in gradient)) == pytest.approx(0.05, rel=1e-4)


@pytest.mark.commit
def test_dropout_follows_from_seed_step_and_row(clipped: Setup) -> None:
    # One pair four times: all four rows are equal, but for dropout.
    batch = _batch([PAIRS[0]] * 4, 4, 9, 12)
    loss = clipped.after(batch)[0]
    assert clipped.after(batch)[0] == loss
    assert clipped.after(batch, step=2)[0] != pytest.approx(loss, rel=1e-4)
    alone = [clipped.after({n: np.where(np.arange(4)[:, None] == i, a, 0) for n, a in batch.items()}) for i in range(4)]
    losses = [each[0] for each in alone]
    assert len({round(each, 4) for each in losses}) == 4
    assert loss == pytest.approx(np.mean(losses), rel=1e-5)


@pytest.mark.commit("3")
@pytest.mark.parametrize("accumulate", [1, 3])
def test_the_number_of_parts_changes_nothing(make_model: Callable[..., Any], clipped: Setup, accumulate: int) -> None:
    other = Setup(make_model(VOCAB, dropout=0.2), clip_norm=0.05, accumulate=accumulate)
    for weight, value in zip(other.start, clipped.start, strict=True):
        weight[...] = value
    batch = _batch(PAIRS, 8, 9, 12)
    loss, norm, state = clipped.after(batch)
    other_loss, other_norm, got = other.after(batch)
    assert other_loss == pytest.approx(loss, rel=1e-6)
    assert other_norm == pytest.approx(norm, rel=1e-5)
    count = len(other.adam.variables)
    for before, now in zip(state[count:], got[count:], strict=True):
        np.testing.assert_allclose(now, before, rtol=1e-3, atol=1e-7)


@pytest.mark.commit
@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e38])
def test_an_update_that_is_not_finite_is_not_applied(plain: Setup, bad: float) -> None:
    batch = _batch(PAIRS, 8, 9, 12)
    plain.reset()
    plain.step(batch, 1, RATE)
    gamma = next(
        v for v, w in zip(plain.adam.variables, plain.model.trainable_weights, strict=True) if "gamma" in w.path
    )
    gamma.assign(np.full(gamma.shape, bad, np.float32))
    before = plain.state()
    plain.step(batch, 2, RATE)
    outcome = plain.step.outcome()
    assert not np.isfinite(outcome.loss + outcome.grad_norm)
    assert outcome.applied == 0
    for old, new in zip(before, plain.state(), strict=True):
        np.testing.assert_array_equal(new, old)
