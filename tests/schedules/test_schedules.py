"""The learning rate against equation (3), and the other schedules against their sources."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from t2t_lite import config, registry
from t2t_lite.errors import UsageError
from t2t_lite.optimizers.choices import make_schedule, model_schedule
from t2t_lite.runs.run_dir import make_model
from t2t_lite.runs.saved_state import SavedState
from t2t_lite.schedules.base import Schedule
from t2t_lite.schedules.constant import Constant
from t2t_lite.schedules.cosine import Cosine
from t2t_lite.schedules.halving import Halving
from t2t_lite.schedules.inverse_sqrt import InverseSqrt
from t2t_lite.schedules.noam import Noam
from t2t_lite.schedules.plateau import Plateau
from t2t_lite.schedules.wsd import WarmupStableDecay


@pytest.mark.parametrize(("name", "peak"), [("base", 6.99e-4), ("big", 4.94e-4)])
def test_the_papers_models_reach_their_peak_at_step_4000(name: str, peak: float) -> None:
    hparams = registry.hparams(name)
    noam = Noam(hparams.d_model, hparams.warmup_steps)
    rates = {step: noam(step) for step in (3999, 4000, 4001)}
    assert rates[4000] == pytest.approx(peak, rel=1e-3)
    assert rates[4000] == pytest.approx((hparams.d_model * 4000) ** -0.5, rel=1e-12)
    assert rates[4000] > max(rates[3999], rates[4001])


@pytest.mark.commit
@pytest.mark.parametrize(("name", "width"), [("vinyals", 2 * 256), ("multi30k_bytenet", 2 * 128), ("tiny", 128)])
def test_its_d_model_is_the_width_of_what_the_softmax_layer_is_given(name: str, width: int) -> None:
    hparams = registry.hparams(name)
    schedule = model_schedule(hparams, make_model(registry.model_of(name), hparams, 97, 97, shared=True))
    peak = hparams.learning_rate_factor * (width * hparams.warmup_steps) ** -0.5
    assert schedule(hparams.warmup_steps) == pytest.approx(peak, rel=1e-12)


@pytest.mark.parametrize("step", [1, 2, 1000, 4000, 16000, 100000])
def test_equation_3(step: int) -> None:
    first, second = 1 / math.sqrt(step), step / math.sqrt(4000) ** 3
    assert Noam(512, 4000)(step) == pytest.approx(min(first, second) / math.sqrt(512), rel=1e-12)


def test_golden_values() -> None:
    assert Noam(512, 4000)(1) == pytest.approx(1.74693e-7, rel=1e-5)
    assert Noam(512, 4000)(2000) == pytest.approx(3.49386e-4, rel=1e-5)  # half the peak, halfway
    assert Noam(512, 4000)(100_000) == pytest.approx(1.39754e-4, rel=1e-5)


def test_the_factor_multiplies() -> None:
    for step in (10, 10_000):
        assert Noam(128, 300, 2.5)(step) == pytest.approx(2.5 * Noam(128, 300)(step), rel=1e-12)
    assert config.HParams().learning_rate_factor == 1  # the paper's


def test_inverse_sqrt_is_equation_3_by_its_peak() -> None:
    ours, noam = InverseSqrt(Noam(512, 4000)(4000), 4000), Noam(512, 4000)
    for step in (1, 77, 4000, 4001, 100_000):
        assert ours(step) == pytest.approx(noam(step), rel=1e-12)
    # fairseq: warmup_updates=10, lr=2: 2 * n / 10, then 2 * 10^0.5 * n^-0.5
    assert [InverseSqrt(2.0, 10)(n) for n in (1, 5, 10, 40)] == pytest.approx([0.2, 1.0, 2.0, 1.0])


def test_constant_rises_in_a_line_and_stays() -> None:
    assert [Constant(2.0, 4)(step) for step in (1, 2, 3, 4, 5, 1000)] == [0.5, 1.0, 1.5, 2.0, 2.0, 2.0]
    assert Constant(2.0, 1)(1) == 2.0


def test_halving_is_luongs() -> None:
    """Epochs of 3 updates: the rate is halved every epoch after 5 epochs."""
    halving = Halving(1.0, 15, 3)
    by_epoch = [{halving(step) for step in range(3 * epoch + 1, 3 * epoch + 4)} for epoch in range(8)]
    assert by_epoch == [{1.0}] * 5 + [{0.5}, {0.25}, {0.125}]


@pytest.mark.parametrize("name", ["gnmt_nmt8", "gnmt_nmt4"])
def test_gnmt_nmt_halves_when_tensorflow_nmt_does(name: str) -> None:
    """Its luong10, by the number of updates before: exponential_decay from 170,000 on, in steps of 17,000."""
    schedule = make_schedule(registry.hparams(name), 1024)
    for step in (1, 170_000, 170_001, 187_000, 187_001, 204_000, 204_001, 340_000):
        assert schedule(step) == 25 * 0.5 ** max((step - 1 - 170_000) // 17_000, 0)


def test_plateau_halves_after_so_many_evaluations_without_a_lower_loss() -> None:
    plateau, said, rates = Plateau(1.0, 2), [], []
    for loss in (5.0, 4.0, 4.0, 4.5, 4.2, 3.9, 3.95, 3.9, 3.91, 4.0):
        said.append(plateau.on_evaluation(loss))
        rates.append(plateau(7))
    assert rates == [1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.125]
    assert [i for i, text in enumerate(said) if text] == [3, 7, 9]
    assert said[3] == (
        "2 evaluations in a row brought no loss on dev below 4.0000: the learning rate is 0.5 from here on."
    )


@pytest.mark.parametrize("floor", [0.0, 0.25])
def test_cosine_is_that_of_sgdr(floor: float) -> None:
    """Equation (5), with T_cur = step - 8 and T_i = 32 after a warm-up of 8 steps."""
    cosine, steps = Cosine(2.0, 8, 40, floor), np.arange(1, 61)
    curve = floor + (2.0 - floor) * (1 + np.cos(np.pi * np.minimum(steps - 8, 32) / 32)) / 2
    wanted = np.where(steps <= 8, 2.0 * steps / 8, curve)
    np.testing.assert_allclose([cosine(int(step)) for step in steps], wanted, rtol=1e-12, atol=1e-15)
    assert [cosine(8), cosine(24), cosine(40)] == pytest.approx([2.0, (2.0 + floor) / 2, floor])


@pytest.mark.parametrize("floor", [0.0, 0.25])
def test_wsd_rises_stays_and_falls(floor: float) -> None:
    """A warm-up of 8 steps, and a decay of 1 - sqrt over the last 16 of 40."""
    wsd, steps = WarmupStableDecay(2.0, 8, 16, 40, floor), np.arange(1, 61)
    decay = floor + (2.0 - floor) * (1 - np.sqrt(np.clip(steps - 24, 0, 16) / 16))
    wanted = np.where(steps <= 24, 2.0 * np.minimum(steps / 8, 1), decay)
    np.testing.assert_allclose([wsd(int(step)) for step in steps], wanted, rtol=1e-12)
    assert [wsd(8), wsd(24), wsd(28), wsd(40)] == pytest.approx([2.0, 2.0, (2.0 + floor) / 2, floor])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Cosine(1.0, 8, 40, 2.0), "min_learning_rate=2, to which .*, is above learning_rate=1. Give a lower"),
        (lambda: WarmupStableDecay(1.0, 8, 16, 40, 2.0), "min_learning_rate=2, to which .*, is above"),
        (lambda: WarmupStableDecay(1.0, 8, 33, 40), "=8 updates and falls for decay_steps=33, which is more than trai"),
    ],
)
def test_phases_that_contradict_each_other_are_refused(make: Callable[[], Schedule], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Constant(0.0, 1), "learning_rate"),
        (lambda: InverseSqrt(0.0, 1), "learning_rate"),
        (lambda: Plateau(0.0, 1), "learning_rate"),
        (lambda: Halving(1.0, 0, 1), "halve_after"),
        (lambda: Halving(1.0, 1, 0), "halve_every"),
        (lambda: Cosine(0.0, 1, 2), "learning_rate"),
        (lambda: WarmupStableDecay(1.0, 1, 0, 2), "decay_steps"),
    ],
)
def test_what_has_no_default_must_be_given(make: Callable[[], Schedule], name: str) -> None:
    with pytest.raises(UsageError, match=rf"^hparams: schedule=\w+ needs {name}, without a default; add {name}=VALUE"):
        make()


@pytest.mark.parametrize("rate", [math.nan, math.inf, -1.0])
def test_a_learning_rate_that_is_none_is_refused(rate: float) -> None:
    class Mine(Schedule):
        def rate(self, step: int) -> float:
            return rate

    with pytest.raises(UsageError, match=r"Mine gives a learning rate of \S+ for step 3; it must be finite"):
        Mine()(3)


def test_a_name_that_is_new_in_a_schedules_memory_is_refused_at_the_first_save() -> None:
    class Forgetful(Constant):
        needs_evaluations = True

        def on_evaluation(self, loss: float) -> str | None:
            self.memory["worst"] = loss
            return None

    schedule = Forgetful(1.0, 0)
    state = SavedState([], None, schedule)
    state.gather()
    schedule.on_evaluation(2.0)
    with pytest.raises(UsageError, match=r"Forgetful has 'worst' in its memory, .* Set it in the constructor\.$"):
        state.gather()
