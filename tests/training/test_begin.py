"""How a run begins: from its newest checkpoint, with its optimizer reset, or from the weights of another run."""

import dataclasses
import os
import shlex
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from t2t_lite import config
from t2t_lite.cli import trainer as bin_trainer
from t2t_lite.config import HParams
from t2t_lite.data.store import Store
from t2t_lite.errors import UsageError
from t2t_lite.runs.checkpoint_files import AVERAGED, BEST
from t2t_lite.runs.resume import check_settings, check_state, read_folder
from t2t_lite.runs.run_data import write_vocabularies
from t2t_lite.runs.run_dir import RunSpec, write_run
from t2t_lite.runs.run_log import record_start
from t2t_lite.runs.start_request import StartRequest
from t2t_lite.signals import Stopped, StopSignals
from t2t_lite.text.vocabulary_training import train_vocabulary
from t2t_lite.training.step import TrainStep
from t2t_lite.training.trainer import Trainer

Make = Callable[[Path], Trainer]


@pytest.fixture
def spec(toy_store: Store, small_hparams: HParams) -> RunSpec:
    hparams = config.replace(small_hparams, train_steps=1)  # a start that should be refused ends soon
    return RunSpec("toy_ende", {"train_size": 240}, str(toy_store.folder.parent), None, "tiny", "transformer", hparams)


@pytest.fixture
def make(spec: RunSpec, toy_store: Store) -> Make:
    return lambda folder: Trainer(folder, spec, toy_store)


def _ones(trainer: Trainer) -> None:
    for variable in (*trainer.optimizer.variables, *trainer.optimizer.m, *trainer.optimizer.v):
        variable.assign(np.ones(variable.shape, np.float32))


def test_a_reset_is_kept_and_reported(make: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trainer = make(tmp_path)
    with pytest.raises(UsageError, match="has no checkpoint whose optimizer --reset_optimizer could reset"):
        trainer.begin(reset_optimizer=True)
    _ones(trainer)
    trainer.checkpoints.save(7)
    trainer.begin(reset_optimizer=True)
    assert capsys.readouterr().out == "Adam's moments are zero from step 7 on.\n"
    _ones(trainer)
    trainer.begin()  # as a restart without the flag
    assert trainer.optimizer.start == 7
    assert all((moment.numpy() == 0).all() for moment in (*trainer.optimizer.m, *trainer.optimizer.v))
    assert all((variable.numpy() == 1).all() for variable in trainer.optimizer.variables)


@pytest.mark.commit
def test_a_signal_before_the_first_step_is_not_called_one_in_a_step(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    warm_up = TrainStep.warm_up

    def signalled(step: TrainStep, *shape: int) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        warm_up(step, *shape)

    monkeypatch.setattr(TrainStep, "warm_up", signalled)
    trainer = make(tmp_path)
    trainer.begin()
    with StopSignals() as stop, pytest.raises(Stopped, match="interrupted; what was saved before is there"):
        trainer.run(stop)
    assert "SIGTERM: the run ends before its first step; what was saved before is there. " in capfd.readouterr().err
    assert not list(tmp_path.glob("checkpoints/*"))


@pytest.mark.commit
def test_a_warm_start_takes_weights_alone_and_only_where_there_are_none(
    make: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trainer = make(tmp_path / "one")
    _ones(trainer)
    trainer.checkpoints.save(7)
    write_vocabularies(tmp_path / "one", trainer.store)
    other = make(tmp_path / "two")
    other.begin(warm_start_from=str(tmp_path / "one"))
    assert capsys.readouterr().out == f"Starting from the weights of {tmp_path / 'one'}, step 7.\n"
    assert all((variable.numpy() == 1).all() for variable in other.optimizer.variables)
    assert all((moment.numpy() == 0).all() for moment in (*other.optimizer.m, *other.optimizer.v))
    trainer.begin(warm_start_from=str(tmp_path / "two"))
    assert capsys.readouterr().out == (
        f"{tmp_path / 'one'} has weights of its own, which count; --warm_start_from is for a new run.\n"
    )


@pytest.mark.commit
def test_a_warm_start_that_saved_nothing_is_not_forgotten(
    make: Make, spec: RunSpec, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = "my runs/a"
    write_run(tmp_path, spec)
    make(tmp_path).checkpoints.save_weights(BEST, 1)  # an evaluation may come before the first checkpoint
    request = StartRequest(output_dir="b", warm_start_from=other, with_optimizer=True)
    with record_start(tmp_path, request=request.as_dict(), devices="", first_step=1):
        pass
    assert bin_trainer.main([f"--output_dir={tmp_path}"]) == 2
    said = capsys.readouterr().err
    assert f"has no checkpoint yet, and was to start from the weights of {other}. Give that again: " in said
    assert said.endswith(f"{shlex.quote(f'--warm_start_from={other}')} --with_optimizer\n")


def test_a_run_that_has_ended_never_starts_over_by_itself(
    make: Make, spec: RunSpec, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path, spec)
    checkpoints = make(tmp_path).checkpoints

    def state() -> None:
        check_state(read_folder(str(tmp_path), None), StartRequest(output_dir=str(tmp_path)), spec)

    checkpoints.save_weights(BEST, 5)
    state()  # killed between its first evaluation and its first checkpoint
    checkpoints.save_weights(AVERAGED, 7)
    with record_start(tmp_path, request={"warm_start_from": "runs/a"}, devices="", first_step=1):
        pass  # which makes no difference once the run has ended
    (tmp_path / "metrics.jsonl").write_text('{"step": 7, "loss": 1.0}\n')
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert bin_trainer.main([f"--output_dir={tmp_path}"]) == 1
    said = capsys.readouterr().err
    assert f"error: {tmp_path}/checkpoints holds no checkpoint to resume from, and training from the beginning" in said
    assert f"another folder from these weights: --output_dir=ANOTHER --warm_start_from={tmp_path} --vocab" in said
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    checkpoints.save(7)
    state()


@pytest.mark.commit("False")
@pytest.mark.parametrize("bare", [False, True])
def test_a_warm_start_compares_vocabularies(
    make: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str], bare: bool
) -> None:
    trainer = make(tmp_path / "one")
    _ones(trainer)
    path = trainer.checkpoints.save(7)
    given = path if bare else str(tmp_path / "one")
    make(tmp_path / "two").begin(warm_start_from=given)
    assert capsys.readouterr().out == (
        f"{tmp_path / 'one'} holds no vocabulary, so it could not be compared with the data's: the weights of {given} "
        f"are of use only if they were trained with the same one.\nStarting from the weights of {given}, step 7.\n"
    )
    write_vocabularies(tmp_path / "one", trainer.store)
    make(tmp_path / "two").begin(warm_start_from=given)
    assert capsys.readouterr().out == f"Starting from the weights of {given}, step 7.\n"
    train_vocabulary(["other text of other words"], size=30).save(tmp_path / "one" / "vocabulary.model")
    other = make(tmp_path / "two")
    message = (
        rf"weights of {tmp_path / 'one'} were trained with another vocabulary \(30 pieces, .*--vocabulary=\S*/one,"
    )
    with pytest.raises(UsageError, match=message):
        other.begin(warm_start_from=given)
    assert not all((variable.numpy() == 1).all() for variable in other.optimizer.variables)  # only layer norm has ones


@pytest.mark.commit
def test_a_warm_start_compares_models(
    make: Make, spec: RunSpec, toy_store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = make(tmp_path / "one").checkpoints.save(7)

    def begin(**changes: Any) -> None:
        new = dataclasses.replace(spec, hparams=config.replace(spec.hparams, **changes))
        Trainer(tmp_path / "two", new, toy_store).begin(warm_start_from=path)

    with pytest.raises(
        UsageError,
        match=r"this run's: num_heads: 2 -> 4, norm: post -> pre\. Give --hparams=num_heads=2,norm=post, or leave",
    ):
        begin(num_heads=4, norm="pre")
    begin(dropout=0.3, relu_dropout=0.2, initial_weights="fairseq09", d_k=8, remat=True, label_smoothing=0.2)
    assert f"Starting from the weights of {path}, step 7.\n" in capsys.readouterr().out
    trainer = make(tmp_path / "three")
    trainer.spec = dataclasses.replace(spec, model="another")
    with pytest.raises(
        UsageError, match=r"are of the model transformer, and this run's is another\. Give --model=tran"
    ):
        trainer.begin(warm_start_from=path)


@pytest.mark.commit
@pytest.mark.parametrize(
    ("flags", "status", "message"),
    [
        (["--warm_start_from=nope"], 1, "There is no run or checkpoint at nope."),
        (["--warm_start_from=one"], 2, "were trained in another model than this run's: num_layers: 1 -> 2, d_model"),
        (["--warm_start_from=one", "--hparams_set=rnn_tiny"], 2, "are of the model transformer, and this run's is rnn"),
        (["--reset_optimizer"], 2, "two has no checkpoint whose optimizer --reset_optimizer could reset. Leave the"),
    ],
)
def test_a_start_that_cannot_be_is_refused_before_the_data_are_prepared(
    make: Make,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    flags: list[str],
    status: int,
    message: str,
) -> None:
    make(tmp_path / "one").checkpoints.save(7)
    monkeypatch.chdir(tmp_path)
    default = ["--problem=toy_ende", "--output_dir=two"]
    assert bin_trainer.main([*default, *flags]) == status
    said = capsys.readouterr()
    assert message in said.err
    assert said.out == ""
    assert not (tmp_path / "two").exists()


@pytest.mark.parametrize("change", [{"warmup_steps": 9}, {"clip_norm": 1.0}, {"adam_beta2": 0.9}])
def test_settings_of_the_optimizer_change_with_a_reset_only(spec: RunSpec, change: dict[str, float]) -> None:
    new = dataclasses.replace(spec, hparams=config.replace(spec.hparams, **change))
    (name,) = change
    message = rf"  {name}: .*\n.*with --reset_optimizer the optimizer's settings may change"
    with pytest.raises(UsageError, match=message):
        check_settings(spec, new, "run")
    check_settings(spec, new, "run", reset_optimizer=True)
    newer = dataclasses.replace(new, hparams=config.replace(new.hparams, dropout=0.5))
    with pytest.raises(UsageError, match=r"settings:\n  dropout: 0.0 -> 0.5\nResume"):
        check_settings(spec, newer, "run", reset_optimizer=True)
