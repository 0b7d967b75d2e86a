"""The loop: its evaluations, and updates that are checked one update later, none after a bad one not tolerated."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite import config
from t2t_lite.config import HParams
from t2t_lite.data.store import Store
from t2t_lite.distributed.devices import Devices, make_strategy
from t2t_lite.distributed.workers import Workers
from t2t_lite.errors import TrainingError
from t2t_lite.groups import OptimizerGroup, RunGroup
from t2t_lite.models.transformer_cost import TransformerCost
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.optimizers.adam import Adam
from t2t_lite.progress import time_left
from t2t_lite.runs.checkpoint import list_checkpoints
from t2t_lite.runs.metrics_log import METRICS_FILE, Report, read_metrics
from t2t_lite.runs.run_dir import RunSpec
from t2t_lite.signals import StopSignals
from t2t_lite.training import trainer
from t2t_lite.training.compilations import Compilations
from t2t_lite.training.loop import Loop, Updates
from t2t_lite.training.non_finite import NonFiniteGuard
from t2t_lite.training.step import TrainStep

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
    monkeypatch.setattr(Loop, "_score", lambda *_: take(600.0))
    intervals = RunGroup(train_steps=100_000, eval_every=5000)
    report = Report(tmp_path, 5001, 100_000, cost=COST, flops=0, device_flops_per_second=1e9)
    parts: tuple[Any, ...] = (report, intervals, Workers(tf.distribute.get_strategy()))
    schedule: Any = SimpleNamespace(needs_evaluations=False, last_evaluation=0)
    loop = Loop(None, None, None, *parts, schedule, {}, 0, StopSignals())  # type: ignore[arg-type]
    assert loop._is_due(5000)
    loop._evaluate(5000)
    for step in range(5001, 5101):
        take(0.5)
        report.add(step, BATCH, 1.0, 1.0, 0.1)
    report.write()
    report.close()
    said = capsys.readouterr().err
    # Of 19 more evaluations, that after the last step included.
    assert time_left(94_900 * 0.5 + 19 * 600).partition(",")[0] == "16 h 21 min left"
    assert ", about 16 h 21 min left, until " in said


VOCAB, SPOILING = 50, 7  # a source piece without a finite embedding
RATE = 1e-3
WEIGHT = "adam_v/transformer.Sencoder.Slayer_0.Saround_feed_forward.Sfeed_forward.Sbias_1/.ATTRIBUTES/VARIABLE_VALUE"

Batch = dict[str, np.ndarray]


class Machine:
    """A model and its step, which are put back to the start."""

    def __init__(self, model: Any) -> None:
        table = model.source_embedding.table.numpy()
        table[SPOILING] = np.nan
        model.source_embedding.table.assign(table)
        adam = Adam([w.value for w in model.trainable_weights], 0.9, 0.98, 1e-9)
        parts = model, adam, make_strategy(Devices(1)), OptimizerGroup()
        self.step = TrainStep(*parts, accumulate=2, seed=1, jit=False)
        self.variables = (*adam.variables, *adam.m, *adam.v)
        self._start = self.state()

    def state(self) -> list[np.ndarray]:
        return [v.numpy() for v in self.variables]

    def reset(self) -> None:
        for variable, value in zip(self.variables, self._start, strict=True):
            variable.assign(value)

    def after(self, *steps: int) -> list[np.ndarray]:
        """The state after these updates alone; each is waited for."""
        self.reset()
        for step, batch in zip(range(1, max(steps) + 1), _batches(), strict=False):
            if step in steps:
                self.step(batch, step, RATE)
                self.step.outcome()
        return self.state()


class Case:
    """Updates from the start, in a folder of their own."""

    def __init__(
        self,
        machine: Machine,
        folder: Path,
        bad: tuple[int, ...] = (),
        tolerated: int = 0,
        ahead: bool = True,
    ) -> None:
        machine.reset()
        self.state = machine.state
        self._path = folder / METRICS_FILE
        report = Report(folder, 1, 30, cost=COST, flops=0, device_flops_per_second=1e9, quiet=True)
        self.examined: list[tuple[int, Batch, list[np.ndarray]]] = []
        bad_batches = NonFiniteGuard(folder, report, self._examine, list, tolerated=tolerated, skipped=0)
        reports = (bad_batches, report, Compilations(report, 0))
        self.updates = Updates(machine.step, _batches(bad), lambda step: RATE, *reports, 1, ahead=ahead)

    def _examine(self, step: int, batch: Batch) -> dict[str, Any]:
        self.examined.append((step, batch, self.state()))
        return {}

    def make(self, *steps: int) -> None:
        for step in steps:
            self.updates.make(step, stop=False)

    def lines(self) -> list[tuple[int, bool]]:
        """(step, whether its update was applied) of each line."""
        text = self._path.read_text(encoding="utf-8") if self._path.exists() else ""
        return [(line["step"], "loss" in line) for line in map(json.loads, text.split("\n")[:-1])]


def _batches(bad: tuple[int, ...] = ()) -> Iterator[Batch]:
    """A batch of random ids for each step; in `bad` steps it has the bad piece."""
    random = np.random.default_rng(5)
    step = 1
    while True:
        batch = {side: random.integers(8, VOCAB, (6, 6), dtype=np.int32) for side in ("source", "target")}
        if step in bad:
            batch["source"][5, 3] = SPOILING
        yield batch
        step += 1


@pytest.fixture(scope="module")
def machine(make_model: Callable[..., Any]) -> Machine:
    return Machine(make_model(VOCAB, shared=False, dropout=0.1))


@pytest.fixture
def case(machine: Machine, tmp_path: Path) -> Callable[..., Case]:
    """Gives case(bad=(steps, ...), tolerated=..., ahead=...)."""
    return lambda **options: Case(machine, tmp_path, **options)


def _assert_same(state: list[np.ndarray], other: list[np.ndarray]) -> None:
    for one, two in zip(state, other, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.commit
def test_an_update_is_reported_when_the_next_has_begun_and_the_last_when_asked(
    case: Callable[..., Case], machine: Machine
) -> None:
    one = case()
    seen = []
    for step in (1, 2, 3):
        one.make(step)
        seen.append(one.lines())
    one.updates.finish()
    one.updates.finish()
    assert seen == [[], [(1, True)], [(1, True), (2, True)]]
    assert one.lines() == [(1, True), (2, True), (3, True)]
    _assert_same(one.state(), machine.after(1, 2, 3))


@pytest.mark.commit
def test_where_it_is_not_ahead_each_update_is_reported_at_once(case: Callable[..., Case], machine: Machine) -> None:
    one = case(bad=(2,), ahead=False)
    one.make(1)
    assert one.lines() == [(1, True)]
    with pytest.raises(TrainingError, match="Step 2: "):
        one.make(2)
    _assert_same(one.examined[0][2], machine.after(1))


@pytest.mark.commit
def test_after_a_bad_batch_that_is_not_tolerated_weights_stay_for_its_report(
    case: Callable[..., Case], machine: Machine
) -> None:
    one = case(bad=(2,))
    one.make(1, 2)
    with pytest.raises(TrainingError, match="Step 2: the loss is nan"):
        one.make(3)
    ((step, batch, state),) = one.examined
    assert step == 2
    assert SPOILING in batch["source"]
    _assert_same(state, machine.after(1))
    assert one.lines() == [(1, True)]


@pytest.mark.commit
def test_a_tolerated_bad_batch_is_left_out_and_the_next_are_made(case: Callable[..., Case], machine: Machine) -> None:
    one = case(bad=(2,), tolerated=1)
    one.make(1, 2, 3, 4)
    one.updates.finish()
    assert one.lines() == [(1, True), (2, False), (3, True), (4, True)]
    _assert_same(one.state(), machine.after(1, 3, 4))


@pytest.mark.commit
def test_the_update_after_the_last_tolerated_one_is_made_also_if_that_was_waited_for(
    case: Callable[..., Case], machine: Machine
) -> None:
    one = case(bad=(2,), tolerated=1)
    one.make(1, 2)
    one.updates.finish()
    one.make(3)
    one.updates.finish()
    assert one.lines() == [(1, True), (2, False), (3, True)]
    _assert_same(one.state(), machine.after(1, 3))


@pytest.mark.commit
def test_of_two_bad_batches_in_a_row_the_second_is_too_many(case: Callable[..., Case], machine: Machine) -> None:
    one = case(bad=(2, 3), tolerated=1)
    one.make(1, 2, 3)
    with pytest.raises(TrainingError, match="Step 3: "):
        one.make(4)
    _assert_same(one.examined[0][2], machine.after(1))
    assert one.lines() == [(1, True), (2, False)]


@pytest.mark.commit
def test_a_wish_to_stop_is_known_when_its_update_has_been_looked_at(case: Callable[..., Case]) -> None:
    one = case()
    one.make(1)
    one.updates.make(2, stop=True)
    assert one.updates.asked_to_stop == np.inf
    one.updates.make(3, stop=True)
    assert one.updates.asked_to_stop == 2
    one.updates.finish()
    assert one.updates.asked_to_stop == 2


@pytest.mark.nightly
def test_a_whole_run_that_is_ahead_writes_what_one_does_that_is_not(
    toy_store: Store, small_hparams: HParams, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs ahead as on a GPU; logs, evaluations and checkpoints come between updates at different times.

    With early_stopping the run waits for each evaluation. It does not end earlier, as the loss falls.
    """
    often = {"log_every": 2, "eval_every": 3, "save_every": 4, "keep_checkpoints": 9, "average_checkpoints": 1}
    search = {"eval_lines": 2, "extra_length": 2, "beam_size": 1}
    hparams = config.replace(small_hparams, train_steps=11, dropout=0.1, **often, **search)
    found = []
    for ahead, early_stopping in ((False, 0), (True, 0), (True, 1)):
        options = {"train_size": 240}, str(toy_store.folder.parent), None, "tiny", "transformer"
        spec = RunSpec("toy_ende", *options, config.replace(hparams, early_stopping=early_stopping))
        monkeypatch.setattr(trainer, "on_gpus", lambda ahead=ahead: ahead)
        run = trainer.Trainer(tmp_path / f"{ahead} {early_stopping}", spec, toy_store)
        run.begin()
        run.run()
        clock = ("tokens_per_second", "input_seconds", "flops_per_second", "utilisation", "trained_seconds", "goodput")
        lines = [{k: v for k, v in line.items() if k not in clock} for line in read_metrics(run.output_dir)]
        paths = list_checkpoints(run.output_dir)
        weights = [tf.train.load_checkpoint(path).get_tensor(WEIGHT) for path in paths]
        found.append((lines, [Path(path).name for path in paths], weights))
    for other in found[1:]:
        assert other[:2] == found[0][:2]
        for one, two in zip(found[0][2], other[2], strict=True):
            np.testing.assert_array_equal(one, two)
    assert len(found[0][0]) > 3
