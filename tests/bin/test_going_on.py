"""The command that goes on with a stopped run keeps what the run's folder does not hold."""

import argparse
import shlex
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

from t2t_lite import registry
from t2t_lite.bin import exporter, going_on, trainer
from t2t_lite.metrics.score import Score
from t2t_lite.runs import run_data
from t2t_lite.runs.run_dir import RunSpec, write_run
from t2t_lite.signals import Stopped


@pytest.mark.parametrize(
    "kept",
    [
        [],
        ["--usr_dir=my code", "--devices=3", "--accumulate=2"],
        ["--strategy=mirrored", "--skip_bad_batches=2"],
    ],
)
def test_the_flags_that_a_run_does_not_hold(kept: list[str]) -> None:
    parser = trainer.make_parser()
    args = parser.parse(["--problem=toy_ende", "--train_steps=9", "--output_dir=a b", *kept])
    words = shlex.split(going_on.command(parser, args))
    assert words == ["t2t-lite-trainer", "--output_dir=a b", *kept]
    again = parser.parse(words[1:])
    assert all(vars(again)[name] == vars(args)[name] for name in vars(args) if name not in ("problem", "train_steps"))


def test_until_the_new_settings_are_written_the_whole_command_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise Stopped(signal.SIGINT, "interrupted; what was saved before is there.")

    write_run(tmp_path, RunSpec("toy_ende", {}, "data", None, "tiny", "transformer", registry.hparams("tiny")))
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "model-5.index").touch()
    monkeypatch.setattr(run_data, "prepare_run_data", interrupted)
    flags = ["--reset_optimizer", "--hparams=learning_rate_factor=0.3"]
    assert trainer.main([f"--output_dir={tmp_path}", *flags]) == 130
    said = capsys.readouterr().err
    assert said.endswith("interrupted; what was saved before is there. Go on with the same command\n")


def test_what_comes_next_is_said_with_whole_paths(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    score = SimpleNamespace(hypotheses=[], references=[], score=Score("BLEU", 1.0, "", ""))
    store = SimpleNamespace(text=lambda split: ([], []), in_train=lambda split: None, split=lambda split: [])
    trained = SimpleNamespace(finish=lambda: ("best/model-1", "dev", score), store=store, output_dir=tmp_path)
    trainer._score(argparse.Namespace(output_dir="my runs/1"), trained)  # type: ignore[arg-type]
    assert "\nNext: t2t-lite-decoder --output_dir='my runs/1'   (reads" in capsys.readouterr().out
    base = tmp_path / "my exports"
    (base / "1").mkdir(parents=True)
    card = {"parameters": 1, "checkpoint": "best/model-1", "scores": [], "scores_note": "", "problem": {"name": "ende"}}
    exporter._report(base / "1", "saved_model", card)
    said = capsys.readouterr().out
    assert f"\nNext: t2t-lite-decoder --saved_model='{base}'   (reads" in said
    assert f" -v '{base}':/models/ende -e MODEL_NAME=ende " in said
