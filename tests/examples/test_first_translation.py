"""README.md's first translation: its two commands, each a new process, on folders as OPUS-MT releases them."""

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks import import_opus
from tests import readme
from tests.commands import module_of
from tests.importers.marian_golden import GOLDEN

pytestmark = pytest.mark.nightly

_SECTION = "First model"
_BLOCK = next(b for b in readme.blocks(readme.read_pages()) if b.section == _SECTION)


def _translate(folder: Path) -> str:
    """Runs the block in `folder`, which has opus-en-de; prints the seconds; returns what the last command printed."""
    for command in _BLOCK.commands():
        before, name = command.partition("t2t-lite-")[::2]
        name, _, flags = name.partition(" ")
        began = time.perf_counter()
        script = f"{before}{sys.executable} -m t2t_lite.cli.{module_of(name)} {flags}"
        done = subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True, check=False)
        print(f"t2t-lite-{name}: {time.perf_counter() - began:.1f} s")
        assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_block_is_read_as_it_is_meant() -> None:
    assert [command.split("t2t-lite-")[1].split()[0] for command in _BLOCK.commands()] == ["import", "decoder"]


def test_a_model_that_marian_trained_translates(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "toy", tmp_path / "opus-en-de")
    assert _translate(tmp_path) == "Der Bruder kocht.\n"


def test_a_model_of_the_size_of_opus_mt(tmp_path: Path) -> None:
    """It has random weights: only the time counts, which docs/install.md gives."""
    import_opus.make(tmp_path / "opus-en-de")
    assert _translate(tmp_path).strip()
