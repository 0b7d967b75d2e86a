"""The way in which operations share the processors changes no result.

On a machine with one processor both ways are the same.
"""

import itertools
import json
from pathlib import Path

import pytest

from t2t_lite import registry
from tests.system.conftest import RECIPE, Run, write_lines

pytestmark = pytest.mark.nightly

TENSORFLOWS_WAY = {"TF_NUM_INTRAOP_THREADS": "2"}  # with this variable all operations share all processors


def test_training_is_the_same(run: Run, corpus: Path, tmp_path: Path) -> None:
    changes = {"dropout": 0.2, "train_steps": 20, "log_every": 5, "eval_every": 20}
    given = dict(item.split("=") for item in RECIPE.split(",")) | changes
    recipe = ",".join(f"{name}={value}" for name, value in given.items())
    lines = []
    for name, env in (("ours", {}), ("theirs", TENSORFLOWS_WAY)):
        run(
            "trainer",
            "--problem=text2text",
            f"--source_dir={corpus}",
            "--languages=en-de",
            "--vocab_size=400",
            f"--data_dir={tmp_path / 'data'}",
            "--hparams_set=tiny",
            f"--hparams={recipe}",
            f"--output_dir={tmp_path / name}",
            env=env,
        )
        rows = (tmp_path / name / "metrics.jsonl").read_text().split("\n")[:-1]
        lines.append([json.loads(row) for row in rows])
    assert len(lines[0]) == 5
    for ours, theirs in zip(*lines, strict=True):
        assert ours["step"] == theirs["step"]
        for key in ("loss", "grad_norm") if "loss" in ours else ("dev_loss",):
            assert ours[key] == pytest.approx(theirs[key], rel=1e-4)


def test_translations_are_the_same(run: Run, trained: tuple[Path, str], tmp_path: Path) -> None:
    samples = itertools.islice(registry.problem("toy_ende", train_size=1000).samples("train"), 100)
    text = write_lines(tmp_path / "text", [source for source, _ in samples])
    answers = []
    for env in ({}, TENSORFLOWS_WAY):
        done = run("decoder", f"--output_dir={trained[0]}", f"--input={text}", "--json", "--nbest=2", env=env)
        answers.append([json.loads(row) for row in done.stdout.split("\n")[:-1]])
    assert len(answers[0]) == 100
    for ours, theirs in zip(*answers, strict=True):
        assert [output["text"] for output in ours["outputs"]] == [output["text"] for output in theirs["outputs"]]
        for one, other in zip(ours["outputs"], theirs["outputs"], strict=True):
            assert one["score"] == pytest.approx(other["score"], rel=1e-3)
