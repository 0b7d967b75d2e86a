"""Lines about XLA's compilations, and the speed without their time."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.distributed.devices import Devices, make_strategy
from t2t_lite.errors import TrainingError
from t2t_lite.groups import OptimizerGroup
from t2t_lite.optimizers.adam import Adam
from t2t_lite.runs.metrics_log import Report, read_metrics
from t2t_lite.training.compilations import Compilations
from t2t_lite.training.loop import Updates
from t2t_lite.training.non_finite import NonFiniteGuard
from t2t_lite.training.step import TrainStep

pytestmark = pytest.mark.commit

SHAPES = [(6, 3, 4), (6, 3, 4), (5, 3, 5), (6, 3, 4), (5, 3, 5)]  # of batches; the first is tried before


@pytest.mark.nightly
@pytest.mark.parametrize("ahead", [True, False], ids=["ahead", "waiting"])
def test_each_program_is_said_once_and_its_time_is_not_that_of_the_updates(
    make_model: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], ahead: bool
) -> None:
    model = make_model()
    adam = Adam([w.value for w in model.trainable_weights], 0.9, 0.98, 1e-9)
    parts = model, adam, make_strategy(Devices(1)), OptimizerGroup(clip_norm=1.0)
    step = TrainStep(*parts, accumulate=1, seed=1, jit=True)
    report = Report(tmp_path, 1, 30, cost=model.cost, flops=0, device_flops_per_second=1e9)
    compilations = Compilations(report, 2)
    start = time.perf_counter()
    with compilations.watch(*SHAPES[0]):
        step.warm_up(*SHAPES[0])
    compiled = time.perf_counter() - start
    guard = NonFiniteGuard(tmp_path, report, lambda *given: {}, list, tolerated=0, skipped=0)
    batches = (
        {"source": np.full((rows, source), 5, np.int32), "target": np.full((rows, target), 5, np.int32)}
        for rows, source, target in itertools.cycle(SHAPES)
    )
    updates = Updates(step, batches, lambda number: 1e-3, guard, report, compilations, 1, ahead=ahead)
    for number in range(1, len(SHAPES) + 1):
        updates.make(number, stop=False)
    updates.finish()
    report.close()
    first, *others = capsys.readouterr().out.splitlines()
    assert first.startswith("xla:      compiles a program for each of the 2 shapes of batches; on a GPU ")
    assert [line.partition(" pieces")[0] for line in others if line.startswith("xla:")] == [
        "xla:      program 1 of 2, for batches of 6 x (3 + 4)",
        "xla:      program 2 of 2, for batches of 5 x (3 + 5)",
    ]
    seconds = [line["target_tokens"] / line["tokens_per_second"] for line in read_metrics(tmp_path)]
    # Without `ahead`, the one line that has no other update than the compiled one shows the whole time.
    assert [taken > compiled / 10 for taken in seconds] == [False, False, not ahead, False, False]


@pytest.fixture
def report(tmp_path: Path, make_model: Any) -> Iterator[Report]:
    made = Report(tmp_path, 1, 30, cost=make_model().cost, flops=0, device_flops_per_second=1e9)
    yield made
    made.close()


def test_missing_programs_are_compiled_several_at_a_time_as_they_are_needed(
    report: Report, capsys: pytest.CaptureFixture[str]
) -> None:
    compilations, begun, together = Compilations(report, 5), list[int](), threading.Barrier(2, timeout=60)
    with compilations.watch(1, 1, 1):
        pass

    def compile_shape(rows: int, source_length: int, target_length: int) -> None:
        begun.append(rows)
        together.wait()  # for the other thread: breaks if there is none
        if rows == 4:
            raise TrainingError("The device ran out of memory") from tf.errors.ResourceExhaustedError(None, None, "")

    shapes = [(1, 1, 1), (3, 1, 1), (2, 1, 1), (3, 1, 1), (4, 1, 1), (5, 1, 1)]
    compilations.compile_ahead(shapes, compile_shape, 1)
    assert begun == []
    compilations.compile_ahead(shapes, compile_shape, 2)
    assert set(begun[:2]) == {3, 2}
    assert set(begun[2:]) == {4, 5}
    for rows, compiles in ((3, False), (2, False), (5, False), (4, True)):  # 4 waits until it has the memory alone
        with compilations.watch(rows, 1, 1) as found:
            assert found == compiles
    lines = [line for line in capsys.readouterr().out.splitlines() if "programs in " in line]
    assert [line.partition(" in ")[0] for line in lines] == ["xla:      4 programs"]


def test_a_stop_ends_the_rest(report: Report) -> None:
    begun = list[int]()

    def check() -> None:
        raise KeyboardInterrupt

    def compile_shape(rows: int, source_length: int, target_length: int) -> None:
        time.sleep(0.05)
        begun.append(rows)

    with pytest.raises(KeyboardInterrupt):
        Compilations(report, 20).compile_ahead([(rows, 1, 1) for rows in range(20)], compile_shape, 2, check)
    assert len(begun) < 10


def test_nothing_is_said_without_xla(tmp_path: Path, capsys: pytest.CaptureFixture[str], make_model: Any) -> None:
    report = Report(tmp_path, 1, 30, cost=make_model().cost, flops=0, device_flops_per_second=1e9)
    with Compilations(report, 0).watch(6, 3, 4) as compiles:
        assert not compiles
    assert capsys.readouterr().out == ""
