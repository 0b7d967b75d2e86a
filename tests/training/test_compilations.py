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
from t2t_lite.training.step import TrainStep


def _batch(rows: int, source: int, target: int) -> dict[str, np.ndarray]:
    return {"source": np.full((1, rows, source), 5, np.int32), "target": np.full((1, rows, target), 5, np.int32)}


def test_a_program_is_said_when_it_is_compiled_and_not_when_it_is_used_again(
    make_model: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = make_model()
    report = Report(tmp_path, 1, 30, cost=model.cost, flops=0, device_flops_per_second=1e9)
    adam = Adam([w.value for w in model.trainable_weights], 0.9, 0.98, 1e-9)
    options: dict[str, Any] = {"label_smoothing": 0.1, "clip_norm": 1.0, "seed": 1, "jit": True}
    watch = Compilations(report, 1).watch
    step = TrainStep(model, adam, make_strategy(Devices(1)), micro_batches=1, watch=watch, **options)
    begun, batch = time.perf_counter(), _batch(6, 3, 4)
    step.warm_up(6, 3, 4)
    compiled = time.perf_counter() - begun
    for number in (1, 2):
        step(batch, number, 1e-3)
        report.add(number, batch, step.outcome().loss, 1.0, 1e-3)
    report.write()
    took = time.perf_counter() - begun
    report.close()
    first, *others = capsys.readouterr().out.splitlines()
    assert first.startswith("xla:      compiles a program for each of the 1 shapes of batches when its first ")
    (said,) = [line for line in others if line.startswith("xla:")]
    assert said.startswith("xla:      program 1 of 1, for micro-batches of 6 x (3 + 4) pieces, took ")
    (line,) = read_metrics(tmp_path)
    seconds = line["target_tokens"] / line["tokens_per_second"]
    assert seconds < took - 0.9 * compiled


def test_each_new_shape_is_one_program_more(
    make_model: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = Report(tmp_path, 1, 30, cost=make_model().cost, flops=0, device_flops_per_second=1e9)
    compilations = Compilations(report, 3)
    capsys.readouterr()
    for rows, source, target in ((6, 3, 4), (5, 3, 5), (6, 3, 4), (6, 4, 4)):
        with compilations.watch(_batch(rows, source, target)):
            pass
    said = capsys.readouterr().out.splitlines()
    assert [line.partition(" pieces")[0] for line in said] == [
        "xla:      program 1 of 3, for micro-batches of 6 x (3 + 4)",
        "xla:      program 2 of 3, for micro-batches of 5 x (3 + 5)",
        "xla:      program 3 of 3, for micro-batches of 6 x (4 + 4)",
    ]
