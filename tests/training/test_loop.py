"""Evaluations of a training: how many are to come, and the time left that is said of them."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.distributed.workers import Workers
from t2t_lite.groups import RunGroup
from t2t_lite.models.transformer_cost import TransformerCost
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.progress import time_left
from t2t_lite.runs.metrics_log import Report
from t2t_lite.signals import StopSignals
from t2t_lite.training.loop import Evaluations

COST = TransformerCost(TransformerHParams(num_layers=1, d_model=16, d_ff=32, num_heads=2), target_vocab_size=50)
BATCH = {"source": np.ones((1, 2, 3), np.int32), "target": np.ones((1, 2, 4), np.int32)}


@pytest.mark.parametrize(("steps", "every"), [(30, 10), (31, 10), (39, 10), (7, 10), (5, 1)])
def test_the_evaluations_after_one_are_counted(steps: int, every: int) -> None:
    intervals = RunGroup(train_steps=steps, eval_every=every)
    evaluated = [step for step in range(1, steps + 1) if intervals.evaluates(step)]
    assert [intervals.evaluations_after(step) for step in evaluated] == [*reversed(range(len(evaluated)))]


def test_the_time_left_is_right_where_a_restart_begins_with_an_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]

    def take(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(Evaluations, "_make", lambda *_: take(600.0))
    intervals = RunGroup(train_steps=100_000, eval_every=5000)
    report = Report(tmp_path, 5001, 100_000, cost=COST, flops=0, device_flops_per_second=1e9)
    parts: tuple[Any, ...] = (report, intervals, Workers(tf.distribute.get_strategy()), {})
    evaluations = Evaluations(None, None, *parts, SimpleNamespace(needs_evaluations=False, last_evaluation=0), 0)
    assert evaluations.missing(5000)
    evaluations.make(5000, StopSignals())
    for step in range(5001, 5101):
        take(0.5)
        report.add(step, BATCH, 1.0, 1.0, 0.1)
    report.write()
    report.close()
    said = capsys.readouterr().err
    # Of 19 more evaluations, that after the last step included.
    assert time_left(94_900 * 0.5 + 19 * 600).partition(",")[0] == "16 h 21 min left"
    assert ", about 16 h 21 min left, until " in said
