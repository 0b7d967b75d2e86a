"""Fixtures for the tests of faults: commands in this process, and a trained run."""

import importlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import commands
from tests.faults.material import SMALL, write_corpus

Run = Callable[..., tuple[int, str]]

RECIPE = (
    "num_layers=1,d_model=32,d_ff=64,num_heads=2,batch_tokens=256,max_length=32,train_steps=2,save_every=1,eval_every=2,"
    "eval_lines=2,beam_size=1,average_checkpoints=1"
)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `run("datagen", "--flag", ...)` in this process; returns exit status and messages."""

    def run_command(command: str, *flags: object) -> tuple[int, str]:
        capsys.readouterr()
        try:
            status = importlib.import_module(f"t2t_lite.cli.{command}").main([str(flag) for flag in flags])
        except SystemExit as end:
            status = end.code
        return status, commands.without_progress(capsys.readouterr().err)

    return run_command


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two steps, which tests must not change; its data lies inside."""
    from t2t_lite.cli import trainer

    folder = tmp_path_factory.mktemp("runs") / "run"
    corpus = write_corpus(folder.parent / "corpus", SMALL, SMALL[:20])
    assert trainer.main([*corpus, "--hparams_set=tiny", f"--hparams={RECIPE}", f"--output_dir={folder}"]) == 0
    return folder


@pytest.fixture
def copy(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))
