"""Training from prepared data at a URL, as whole commands: the run that a folder gives."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.system.conftest import RECIPE

pytestmark = pytest.mark.nightly

Run = Callable[..., subprocess.CompletedProcess[str]]
PROBLEM = ["--problem=toy_ende", "--problem_options=train_size=1000"]
QUICK = RECIPE.replace("train_steps=120", "train_steps=20").replace("log_every=30", "log_every=5")


def _losses(folder: Path) -> list[float]:
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [line["loss"] for line in map(json.loads, lines) if "loss" in line]


def test_a_url_trains_the_run_that_a_folder_does(run: Run, tmp_path: Path) -> None:
    data, cache = tmp_path / "data", tmp_path / "cache"
    described = run("datagen", *PROBLEM, f"--data_dir={data}").stdout
    shutil.copytree(data, tmp_path / "bucket")
    url, env = f"file://{tmp_path}/bucket", {"XDG_CACHE_HOME": str(cache)}
    again = run("datagen", *PROBLEM, f"--data_dir={url}", "--verify", env=env).stdout
    assert again.split("\n")[1:] == described.split("\n")[1:]
    for name, place in (("local", data), ("remote", url)):
        run(
            "trainer", *PROBLEM, f"--data_dir={place}", f"--hparams={QUICK}", f"--output_dir={tmp_path / name}", env=env
        )
    assert len(_losses(tmp_path / "local")) == 4
    assert _losses(tmp_path / "remote") == _losses(tmp_path / "local")
    assert not list(cache.glob("t2t-lite/data/*/toy_ende/train.*.ids"))
    assert len(list(cache.glob("t2t-lite/shards/[!.]*"))) == 2
