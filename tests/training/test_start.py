"""The command that resumes a stopped run keeps what the run's folder does not hold."""

import dataclasses
import json
import shlex
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from t2t_lite import config, registry
from t2t_lite.cli import exporter, trainer
from t2t_lite.distributed import devices
from t2t_lite.errors import UsageError
from t2t_lite.metrics.score import Score
from t2t_lite.runs import run_data
from t2t_lite.runs.recipe_request import RecipeRequest
from t2t_lite.runs.run_dir import RunSpec, write_run
from t2t_lite.runs.start_request import StartRequest
from t2t_lite.signals import Stopped
from t2t_lite.training.start import Result, plan_start


@pytest.mark.parametrize(
    "kept",
    [
        [],
        ["--usr_dir=my code", "--devices=3", "--accumulate=2"],
        ["--strategy=mirrored", "--skip_bad_batches=2"],
    ],
)
def test_the_flags_that_a_run_does_not_hold(kept: list[str]) -> None:
    def request(*flags: str) -> StartRequest:
        return trainer.start_request(trainer.make_parser().parse(["--output_dir=a b", *flags]))

    asked = request("--problem=toy_ende", "--train_steps=9", *kept)
    words = shlex.split(asked.resume_command())
    assert words == ["t2t-lite-trainer", "--output_dir=a b", *kept]
    data = dataclasses.replace(asked.data, problem=None)
    assert request(*words[2:]) == dataclasses.replace(asked, data=data, recipe=RecipeRequest())
    assert StartRequest.from_dict(json.loads(json.dumps(asked.as_dict()))) == asked


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
    assert said.endswith("interrupted; what was saved before is there. Resume with the same command\n")


def test_a_run_that_resumes_with_auto_keeps_its_precision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new run has what the devices are fast in; bfloat16 here stands in for that."""
    monkeypatch.setattr(devices, "auto_precision", lambda: "bfloat16")

    def precision(*flags: str) -> str:
        request = trainer.start_request(trainer.make_parser().parse([f"--output_dir={tmp_path}", *flags]))
        return plan_start(request).spec.hparams.precision

    auto = ("--problem=toy_ende", "--hparams_set=tiny", "--hparams=precision=auto")
    assert precision(*auto) == "bfloat16"
    old = config.replace(registry.hparams("tiny"), precision="float16")
    options = registry.problem("toy_ende").all_options()
    write_run(tmp_path, RunSpec("toy_ende", options, "data", None, "tiny", "transformer", old))
    assert precision(*auto) == "bfloat16"  # it has not trained yet
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "model-5.index").touch()
    assert precision(*auto) == precision("--hparams=precision=auto") == precision() == "float16"
    with pytest.raises(UsageError, match="precision: 'float16' -> 'float32'"):
        precision(*auto[:2])


def test_what_comes_next_is_said_with_whole_paths(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scores: Any = SimpleNamespace(hypotheses=[], references=[], score=Score("BLEU", 1.0, "", ""))
    store: Any = SimpleNamespace(text=lambda split: ([], []), in_train=lambda split: None, split=lambda split: [])
    text = Result("my runs/1", "best/model-1", "dev", scores, store).text()
    assert "\nNext: t2t-lite-decoder --output_dir='my runs/1'   (reads" in text
    base = tmp_path / "my exports"
    (base / "1").mkdir(parents=True)
    card = {"parameters": 1, "checkpoint": "best/model-1", "scores": [], "scores_note": "", "problem": {"name": "ende"}}
    exporter._report(base / "1", "saved_model", card)
    said = capsys.readouterr().out
    assert f"\nNext: t2t-lite-decoder --saved_model='{base}'   (reads" in said
    assert f" -v '{base}':/models/ende -e MODEL_NAME=ende " in said
