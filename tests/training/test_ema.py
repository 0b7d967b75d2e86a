"""The moving average of weights against its recurrence in NumPy, from the weights after each update."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from t2t_lite import config
from t2t_lite.distributed.devices import Devices, make_strategy
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.optimizers.choices import make_optimizer
from t2t_lite.training.step import TrainStep

DECAY, V = 0.3, 20
BATCH = {
    "source": np.random.default_rng(1).integers(2, V, (3, 5), "int32"),
    "target": np.random.default_rng(2).integers(2, V, (3, 4), "int32"),
}


@pytest.mark.commit
@pytest.mark.parametrize("jit", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_it_is_the_recurrence_over_the_updates_that_are_applied(make_model: Callable[..., Any], jit: bool) -> None:
    model = make_model(V)
    optimizer = make_optimizer(config.replace(model.hparams, ema=DECAY), [w.value for w in model.trainable_weights])
    step = TrainStep(
        model, optimizer, make_strategy(Devices(1)), model.hparams.optimization, accumulate=1, seed=1, jit=jit
    )
    ema = optimizer.ema
    assert ema is not None
    averages, n = [np.zeros(w.shape) for w in model.trainable_weights], 0
    for number in range(1, 9):
        if number in (1, 4):
            step.warm_up(3, 5, 4)  # which applies nothing
        else:
            step(BATCH, number, 0.01)
            decay = min(DECAY, (1 + n) / (10 + n)) if n else 0.0
            now = [np.float64(w.numpy()) for w in model.trainable_weights]
            averages = [decay * a + (1 - decay) * w for a, w in zip(averages, now, strict=True)]
            n += 1
        for average, wanted in zip(ema.averages, averages, strict=True):
            np.testing.assert_allclose(average.numpy(), wanted, rtol=0, atol=1e-6)
    assert n / (9 + n) > DECAY > 2 / 11  # of the last update and of the second
    assert ema.updates.numpy() == n


def test_there_is_none_by_default() -> None:
    assert make_optimizer(TransformerHParams(), []).ema is None
