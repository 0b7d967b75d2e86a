"""A run goes on bit for bit with each optimizer and schedule; what they remember is in the checkpoint."""

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from t2t_lite import config
from t2t_lite.config import HParams
from t2t_lite.data.store import Store
from t2t_lite.distributed import tensorflow_loading
from t2t_lite.errors import DataError
from t2t_lite.runs.metrics_log import read_metrics
from t2t_lite.runs.run_dir import RunSpec
from t2t_lite.runs.utilisation import planned_flops
from t2t_lite.training.step import TrainStep
from t2t_lite.training.trainer import Trainer
from tests.checkpoints import assert_same_bits, tensors

RUN = "train_steps=8,log_every=1,save_every=2,eval_lines=2,beam_size=1,extra_length=1,dropout=0.1"
CASES = {
    "adafactor": f"{RUN},optimizer=adafactor,schedule=inverse_sqrt,learning_rate=0.01,warmup_steps=2,eval_every=100",
    # The rate is so large that the loss on dev rises.
    "nesterov": f"{RUN},optimizer=nesterov,schedule=plateau,learning_rate=8,clip_norm=1,eval_every=1",
}


def _trainer(folder: Path, store: Store, hparams: HParams) -> Trainer:
    spec = RunSpec("toy_ende", {"train_size": 240}, str(store.folder.parent), None, "tiny", "transformer", hparams)
    return Trainer(folder, spec, store)


def _train(folder: Path, store: Store, hparams: HParams) -> None:
    trainer = _trainer(folder, store, hparams)
    trainer.begin()
    trainer.run()


def _forget_after(folder: Path, step: int) -> None:
    """As if the run had been killed before its next checkpoint."""
    for path in (folder / "checkpoints").glob("model-*.index"):
        if int(path.stem.rpartition("-")[2]) > step:
            path.unlink()


def _curve(folder: Path) -> list[tuple[Any, ...]]:
    names = ("step", "loss", "learning_rate", "grad_norm", "dev_loss")
    return [tuple(line.get(name) for name in names) for line in read_metrics(folder)]


@pytest.mark.nightly
def test_a_command_resumes_bit_for_bit_with_the_graph_that_one_before_has_traced(
    toy_store: Store, small_hparams: HParams, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor do the weights matter that a model has before it is restored, which are zeros in a command."""
    hparams = config.override(small_hparams, f"{RUN},eval_every=100")
    _train(tmp_path / "program", toy_store, hparams)
    monkeypatch.setattr(tensorflow_loading, "in_command", lambda: True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    _train(tmp_path / "first", toy_store, hparams)
    assert len(list((tmp_path / "cache/t2t-lite/graphs").glob("*.pb"))) == 1
    _forget_after(tmp_path / "first", 4)
    monkeypatch.setattr(TrainStep, "_distributed", lambda *args: pytest.fail("traced again"))
    _train(tmp_path / "first", toy_store, hparams)
    assert_same_bits(tensors(tmp_path / "first", 8), tensors(tmp_path / "program", 8))
    assert _curve(tmp_path / "first") == _curve(tmp_path / "program")


@pytest.mark.nightly
@pytest.mark.parametrize("name", CASES)
def test_a_killed_run_ends_as_if_it_had_not_been(
    name: str, toy_store: Store, small_hparams: HParams, tmp_path: Path
) -> None:
    hparams, run = config.override(small_hparams, CASES[name]), tmp_path / "run"
    _train(run, toy_store, hparams)
    whole, curve = tensors(run, 8), _curve(run)
    parts = {key.partition("/")[0] for key in whole}
    slots = {"adafactor": {"rows", "columns", "v"}, "nesterov": {"m"}}[name]
    memory = {"schedule_memory"} if name == "nesterov" else set()
    assert parts == {"weights", "step", f"{name}_start"} | {f"{name}_{slot}" for slot in slots} | memory
    _forget_after(run, 4)
    if name == "nesterov":
        rates = [line[2] for line in curve if line[1] is not None]
        assert rates[0] > rates[4] > rates[7]  # halved before the kill and after it
        (run / "metrics.jsonl").unlink()  # the checkpoint has the earlier evaluations, too
    _train(run, toy_store, hparams)
    assert_same_bits(tensors(run, 8), whole)
    again = _curve(run)
    assert again == curve[-len(again) :]
    assert len(again) == (9 if name == "nesterov" else len(curve))  # with the evaluation after step 4


@pytest.mark.nightly
def test_an_evaluation_that_came_after_the_checkpoint_counts_once(
    toy_store: Store, small_hparams: HParams, tmp_path: Path
) -> None:
    """As when a signal leaves the evaluation to the next start, which is killed once it has made it."""
    hparams = config.replace(config.override(small_hparams, CASES["nesterov"]), eval_every=2)
    _train(tmp_path, toy_store, config.replace(hparams, train_steps=7))  # its last evaluation does not count
    whole = _trainer(tmp_path, toy_store, hparams)
    whole.begin()
    assert whole.schedule.last_evaluation == 6
    memory = dict(whole.schedule.memory)
    _forget_after(tmp_path, 6)
    late = _trainer(tmp_path, toy_store, hparams)
    late.begin()
    _forget_after(tmp_path, 4)
    early = _trainer(tmp_path, toy_store, hparams)
    early.begin()
    assert early.schedule.last_evaluation == 4
    assert early.schedule.memory != memory
    late.schedule.memory, late.schedule.last_evaluation = early.schedule.memory, 4
    late.checkpoints.save(6)  # the weights of step 6, and a schedule that does not know its evaluation
    _train(tmp_path, toy_store, config.replace(hparams, train_steps=7))
    again = _trainer(tmp_path, toy_store, hparams)
    again.begin()
    assert (again.schedule.last_evaluation, again.schedule.memory) == (6, memory)


@pytest.mark.commit
def test_a_schedule_that_is_new_to_a_run_begins_where_it_comes_in(
    toy_store: Store, small_hparams: HParams, tmp_path: Path
) -> None:
    trainer = _trainer(tmp_path, toy_store, config.override(small_hparams, "schedule=constant,learning_rate=1"))
    trainer.checkpoints.save(40)
    new = _trainer(tmp_path, toy_store, config.override(small_hparams, "schedule=plateau,learning_rate=1"))
    assert new.checkpoints.resume() == 40
    assert new.schedule.last_evaluation == 40
    assert new.schedule.memory == {"best": np.inf, "since": 0, "halvings": 0}


@pytest.mark.commit
def test_losses_on_the_data_of_another_run_are_forgotten(
    toy_store: Store, small_hparams: HParams, tmp_path: Path
) -> None:
    hparams = config.override(small_hparams, "schedule=plateau,learning_rate=1")
    old = _trainer(tmp_path / "old", toy_store, hparams)
    old.schedule.memory, old.schedule.last_evaluation = {"best": 1.5, "since": 2, "halvings": 3}, 40
    old.checkpoints.save(40)
    new = _trainer(tmp_path / "new", toy_store, hparams)
    new.begin(warm_start_from=str(tmp_path / "old"), with_optimizer=True)
    assert new.first_step == 41
    assert new.schedule.memory == {"best": np.inf, "since": 0, "halvings": 3}
    old.begin()  # the run itself goes on
    assert old.schedule.memory == {"best": 1.5, "since": 2, "halvings": 3}


@pytest.mark.nightly
def test_the_flops_are_of_the_runs_own_updates(toy_store: Store, small_hparams: HParams, tmp_path: Path) -> None:
    """The updates of the run that it continues do not count, also after a restart between two lines."""
    hparams = config.override(small_hparams, "log_every=4,save_every=3,eval_every=100,eval_lines=2,extra_length=1")
    _trainer(tmp_path / "old", toy_store, hparams).checkpoints.save(40)
    run, hparams = tmp_path / "run", config.replace(hparams, train_steps=46)
    trainer = _trainer(run, toy_store, hparams)
    trainer.begin(warm_start_from=str(tmp_path / "old"), with_optimizer=True)
    trainer.run()
    split = toy_store.split("train")
    planned = functools.partial(planned_flops, trainer.model.cost, split, trainer._make_plan())
    own = [(step, planned(step) - planned(40)) for step in (44, 46)]
    assert [(line["step"], line["flops"]) for line in read_metrics(run) if "flops" in line] == own
    _forget_after(run, 45)
    _train(run, toy_store, hparams)
    assert [(line["step"], line["flops"]) for line in read_metrics(run) if "flops" in line] == own


@pytest.mark.commit
def test_a_checkpoint_of_another_optimizer_is_refused(toy_store: Store, small_hparams: HParams, tmp_path: Path) -> None:
    _trainer(tmp_path, toy_store, small_hparams).checkpoints.save(4)
    other = _trainer(tmp_path, toy_store, config.override(small_hparams, "optimizer=nesterov"))
    with pytest.raises(DataError, match=r"none that nesterov can resume from: it has no nesterov_m, nesterov_start\."):
        other.checkpoints.resume()
