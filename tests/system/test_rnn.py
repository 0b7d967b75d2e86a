"""The recipe of another model than the Transformer, as whole commands."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

Run = Callable[..., subprocess.CompletedProcess[str]]

HPARAMS = (
    "num_layers=1,d_model=32,batch_tokens=1024,learning_rate_factor=1,warmup_steps=40,log_every=10,eval_every=60,eval_lines=8,"
    "average_checkpoints=2,save_every=30,dropout=0.1,extra_length=2"
)
LINES = b"a b c\n1 2 3 4 5 6\n\nz\n"


@pytest.fixture(scope="module")
def rnn_run(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rnn") / "run"
    flags = ("--problem=toy_reverse", "--hparams_set=rnn_tiny", f"--hparams={HPARAMS}", f"--output_dir={folder}")
    done = run("trainer", *flags, "--train_steps=40")
    assert "model:    rnn, hparams set rnn_tiny: " in done.stdout
    return folder


def _outputs(done: subprocess.CompletedProcess[str]) -> list[Any]:
    return [json.loads(line)["outputs"][0] for line in done.stdout.removesuffix("\n").split("\n")]


def test_the_hparams_set_chooses_the_model(run: Run, rnn_run: Path, tmp_path: Path) -> None:
    assert json.loads((rnn_run / "hparams.json").read_text("utf-8"))["model"] == "rnn"
    out = run("trainer", "--describe", "--hparams_set=luong", "--vocab_size=50000", f"--output_dir={tmp_path}").stdout
    assert out.startswith("rnn, hparams set luong: 221,082,000 parameters\n")
    assert "attention_score=general, input_feeding=true" in out


def test_a_run_goes_on_with_the_same_bits(run: Run, rnn_run: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"  # as if it had been killed after step 30
    shutil.copytree(rnn_run, again, ignore=shutil.ignore_patterns("model-40.*", "default_weights.json"))
    assert "Going on from step 30 of 40." in run("trainer", f"--output_dir={again}").stdout
    losses, readers = [], []
    for folder in (rnn_run, again):
        lines = (folder / "metrics.jsonl").read_text("utf-8").removesuffix("\n").split("\n")
        losses.append({row["step"]: row["loss"] for row in map(json.loads, lines) if "loss" in row})
        readers.append(tf.train.load_checkpoint(str(folder / "checkpoints" / "model-40")))
    assert list(losses[0]) == [10, 20, 30, 40]
    assert losses[0] == losses[1]
    keys = [key for key in readers[0].get_variable_to_shape_map() if key.startswith(("weights/", "adam_"))]
    assert len(keys) > 30
    for key in keys:
        np.testing.assert_array_equal(readers[1].get_tensor(key), readers[0].get_tensor(key), err_msg=key)


@pytest.mark.usefixtures("int8_machine")
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_an_export_translates_as_the_run_does(run: Run, rnn_run: Path, tmp_path: Path, precision: str) -> None:
    same = f"--precision={precision}"
    done = run("exporter", f"--output_dir={rnn_run}", f"--export_dir={tmp_path}", same)
    assert done.stderr == ""
    exported = _outputs(run("decoder", f"--saved_model={tmp_path}", "--json", input=LINES))
    ours = _outputs(run("decoder", f"--output_dir={rnn_run}", "--json", same, input=LINES))
    assert len(ours) == 4
    for one, other in zip(exported, ours, strict=True):
        assert one["text"] == other["text"]
        assert abs(one["score"] - other["score"]) <= 1e-4 + 1e-4 * abs(one["score"])


def test_what_a_recipe_has_that_another_model_lacks_is_named(run: Run) -> None:
    done = run("trainer", "--problem=toy_reverse", "--hparams_set=tiny", "--model=rnn", "--describe", "--vocab_size=99")
    wanted = "warning: the model rnn does not read d_ff=512, num_heads=4, norm=pre of the hparams set tiny; left out.\n"
    assert done.stderr.startswith(wanted)
