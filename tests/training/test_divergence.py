"""A run that diverges: huge but finite numbers are reported and written, and do not end the run by themselves."""

import json
from pathlib import Path

import pytest

from t2t_lite.runs.tensorboard import Board
from tests import commands


def test_numbers_beyond_float32_reach_the_curves(tmp_path: Path) -> None:
    board = Board(tmp_path, {})
    board.scalars({"step": 3, "dev_perplexity": 1.0e304, "dev_loss": -1e39, "loss": float("inf")})
    board.close()
    assert list(tmp_path.glob("events.*"))


@pytest.mark.nightly
def test_a_dev_loss_above_that_of_guessing_is_a_warning_also_at_a_restart(tmp_path: Path) -> None:
    hparams = (
        "num_layers=1,d_model=16,d_ff=16,num_heads=2,batch_tokens=256,norm=pre,learning_rate_factor=1e6,train_steps=3,"
        "save_every=3,eval_every=3,eval_lines=2,beam_size=1,extra_length=1,average_checkpoints=1"
    )
    flags = ["--problem=toy_reverse", "--hparams_set=tiny", f"--hparams={hparams}", "--num_workers=1"]
    run = tmp_path / "run"
    done = commands.run("t2t_lite.cli.trainer", *flags, f"--output_dir={run}")
    said = done.stderr.decode()
    assert done.returncode == 0, said
    (warning,) = [line for line in said.split("\n") if line.startswith("warning: a loss of ")]
    assert " is above that of guessing, " in warning
    assert "the run diverges. A lower learning_rate_factor" in warning
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().split("\n")[:-1]]
    assert [line["dev_loss"] > 1000 for line in lines if "dev_loss" in line] == [True]
    again = commands.run("t2t_lite.cli.trainer", f"--output_dir={run}")
    assert again.returncode == 0, again.stderr
