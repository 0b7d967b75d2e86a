"""The smallest backup that docs/keeping.md names: it translates as the run does."""

import re
import shutil
from pathlib import Path

import pytest

import t2t_lite
from t2t_lite.api.load import LoadedRun
from tests.api.conftest import LINES

pytestmark = pytest.mark.commit

PAGE = Path(__file__).resolve().parents[2] / "docs" / "keeping.md"


def test_the_files_that_the_page_names_are_a_model(run: LoadedRun, folder: Path, tmp_path: Path) -> None:
    sentence = re.search(r"To keep a finished model only, take ([^:]*):", PAGE.read_text(encoding="utf-8"))
    assert sentence is not None
    patterns = re.findall(r"`([^`]+)`", sentence[1])
    assert len(patterns) == 7
    for part in {part for pattern in patterns for part in folder.glob(pattern.rstrip("/"))}:
        (shutil.copytree if part.is_dir() else shutil.copy2)(part, tmp_path / part.name)
    assert not (tmp_path / "checkpoints").exists()
    copied = t2t_lite.load(tmp_path)
    assert copied.translate(LINES) == run.translate(LINES)
    assert Path(copied.checkpoint).parent.name == Path(run.checkpoint).parent.name
