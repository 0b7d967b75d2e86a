"""Lines about XLA's compilations, and the speed without their time."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from t2t_lite.distributed.devices import Devices, make_strategy
from t2t_lite.optimizers.adam import Adam
from t2t_lite.runs.report import Report, read_metrics
from t2t_lite.training.compilations import Compilations
from t2t_lite.training.non_finite import NonFiniteGuard
from t2t_lite.training.step import TrainStep
from t2t_lite.training.updates import Updates

SHAPES = [(6, 3, 4), (6, 3, 4), (5, 3, 5), (6, 3, 4), (5, 3, 5)]  # of batches; the first is tried before


@pytest.mark.parametrize("ahead", [True, False], ids=["ahead", "waiting"])
def test_each_program_is_said_once_and_its_time_is_not_that_of_the_updates(
    make_model: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], ahead: bool
) -> None:
    model = make_model()
    adam = Adam([w.value for w in model.trainable_weights], 0.9, 0.98, 1e-9)
    options: dict[str, Any] = {"label_smoothing": 0.1, "clip_norm": 1.0, "seed": 1, "jit": True}
    step = TrainStep(model, adam, make_strategy(Devices(1)), accumulate=1, **options)
    report = Report(tmp_path, 1, 30, cost=model.cost, flops=0, device_flops_per_second=1e9)
    compilations = Compilations(report, 2)
    start = time.perf_counter()
    with compilations.watch(*SHAPES[0]):
        step.warm_up(*SHAPES[0])
    compiled = time.perf_counter() - start
    guard = NonFiniteGuard(tmp_path, report, lambda *given: {}, list, tolerated=0, skipped=0)
    batches = (
        {"source": np.full((rows, source), 5, np.int32), "target": np.full((rows, target), 5, np.int32)}
        for rows, source, target in SHAPES
    )
    updates = Updates(step, batches, lambda number: 1e-3, guard, report, compilations, 1, ahead=ahead)
    for number in range(1, len(SHAPES) + 1):
        updates.make(number, stop=False)
    updates.finish()
    report.close()
    first, *others = capsys.readouterr().out.splitlines()
    assert first.startswith(
        "xla:      compiles a program for each of the 2 shapes of batches when its first one comes;"
    )
    assert [line.partition(" pieces")[0] for line in others if line.startswith("xla:")] == [
        "xla:      program 1 of 2, for batches of 6 x (3 + 4)",
        "xla:      program 2 of 2, for batches of 5 x (3 + 5)",
    ]
    seconds = [line["target_tokens"] / line["tokens_per_second"] for line in read_metrics(tmp_path)]
    # Without `ahead`, the one line that has no other update than the compiled one shows the whole time.
    assert [taken > compiled / 10 for taken in seconds] == [False, False, not ahead, False, False]


def test_nothing_is_said_without_xla(tmp_path: Path, capsys: pytest.CaptureFixture[str], make_model: Any) -> None:
    report = Report(tmp_path, 1, 30, cost=make_model().cost, flops=0, device_flops_per_second=1e9)
    with Compilations(report, 0).watch(6, 3, 4) as compiles:
        assert not compiles
    assert capsys.readouterr().out == ""
