"""A run that was trained from Python, and its export."""

from pathlib import Path

import pytest

import t2t_lite
from t2t_lite.api.load import LoadedRun
from tests import commands

RECIPE = {
    "num_layers": 1,
    "d_model": 64,
    "d_ff": 64,
    "num_heads": 2,
    "dropout": 0,
    "batch_tokens": 1024,
    "max_length": 32,
    "warmup_steps": 40,
    "train_steps": 60,
    "save_every": 20,
    "eval_every": 60,
    "extra_length": 5,
}

LINES = ["ein Haus", "", "der Hund schläft", "die kleine Katze sieht den Hund"]


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> LoadedRun:
    folder = tmp_path_factory.mktemp("api") / "run"
    return t2t_lite.train("toy_ende", "tiny", folder, overrides=RECIPE, num_workers=1)


@pytest.fixture(scope="session")
def folder(run: LoadedRun) -> Path:
    return Path(run.checkpoint).parents[1]


@pytest.fixture(scope="session")
def export(folder: Path) -> Path:
    done = commands.run("t2t_lite.cli.exporter", f"--output_dir={folder}", f"--export_dir={folder.parent / 'export'}")
    assert done.returncode == 0, done.stderr
    return folder.parent / "export"
