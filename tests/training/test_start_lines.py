"""Messages before the first update: a warning if the training ends too early for its schedule."""

from __future__ import annotations

import pytest

from t2t_lite.config import override
from t2t_lite.optimizers.choices import make_schedule
from t2t_lite.registry import hparams
from t2t_lite.training.describe import schedule_warning

RISES = "the learning rate still rises at the last update, step {}."


@pytest.mark.parametrize("schedule", ["noam", "inverse_sqrt,learning_rate=0.01", "constant,learning_rate=0.01"])
def test_a_training_that_ends_while_the_learning_rate_rises(schedule: str) -> None:
    rate = make_schedule(override(hparams("base"), f"schedule={schedule},warmup_steps=1500"), 128)
    for steps in (2, 100, 1500):
        assert RISES.format(f"{steps:,}") in str(schedule_warning(rate, steps))
    for steps in (1, 1501, 9000):
        assert schedule_warning(rate, steps) is None


@pytest.mark.parametrize("schedule", ["halving,halve_after=5,halve_every=5", "plateau", "constant,warmup_steps=1"])
def test_a_learning_rate_that_never_rises(schedule: str) -> None:
    rate = make_schedule(override(hparams("base"), f"schedule={schedule},learning_rate=0.01"), 128)
    assert [schedule_warning(rate, steps) for steps in (1, 2, 7, 1000)] == [None] * 4
