"""The learning rate against equation (3)."""

import math

import pytest

from t2t_lite import config, registry
from t2t_lite.train.schedules.noam import Noam


@pytest.mark.parametrize(("name", "peak"), [("base", 6.99e-4), ("big", 4.94e-4)])
def test_the_papers_models_reach_their_peak_at_step_4000(name: str, peak: float) -> None:
    hparams = registry.hparams(name)
    noam = Noam(hparams.d_model, hparams.warmup_steps)
    rates = {step: noam(step) for step in (3999, 4000, 4001)}
    assert rates[4000] == pytest.approx(peak, rel=1e-3)
    assert rates[4000] == pytest.approx((hparams.d_model * 4000) ** -0.5, rel=1e-12)
    assert rates[4000] > max(rates[3999], rates[4001])


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
