"""docs/import.md: its commands, run unchanged, on a model that tensor2tensor trained and on a made-up model."""

import json
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import commands
from tests.importers.made_up import save, variables
from tests.subword_files import PIECES, file_of

pytestmark = pytest.mark.nightly

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "import.md").read_text(encoding="utf-8")
SHELL = "\n".join(re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)).replace("\\\n", "")
COMMANDS = [shlex.split(line) for line in SHELL.split("\n") if line]
PRINTED = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)[0]


def _lines(folder: Path, name: str, lines: list[str]) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _corpus(folder: Path) -> None:
    for split, count in (("train", 20), ("dev", 3)):
        _lines(folder, f"corpus/{split}.en", [f"the cats {i}" for i in range(count)])
        _lines(folder, f"corpus/{split}.de", [f"in {i}" for i in range(count)])


def _run(folder: Path) -> dict[str, str]:
    """Runs the page's commands in `folder`; returns the last output of each command name."""
    printed = {}
    for name, *flags in COMMANDS:
        module = commands.module_of(name.removeprefix("t2t-lite-"))
        done = commands.run(f"t2t_lite.cli.{module}", *flags, cwd=folder)
        assert done.returncode == 0, done.stderr.decode()
        printed[name] = done.stdout.decode("utf-8")
    return printed


def _read(path: Path) -> list[str]:
    return path.read_text("utf-8").split("\n")[:-1]


def test_the_page_is_read_as_it_is_meant() -> None:
    names = [command[0].removeprefix("t2t-lite-") for command in COMMANDS]
    assert names == ["import", "decoder", "exporter", "decoder", "exporter", "trainer"]


def test_a_model_that_tensor2tensor_trained(shared_data: Callable[[str], Path], tmp_path: Path) -> None:
    """The commands print what the page shows, and translate as tensor2tensor did."""
    golden = shared_data("t2t_golden")
    shutil.copytree(golden / "m30k_tiny", tmp_path / "t2t_train")
    (tmp_path / "t2t_data").mkdir()
    shutil.copy(
        golden / "subwords" / "vocab.translate_ende_m30k.4096.subwords", tmp_path / "t2t_data" / "vocab.subwords"
    )
    shutil.copy(golden / "m30k_tiny" / "inputs.en", tmp_path / "test.en")
    theirs = json.loads((golden / "m30k_tiny" / "translations.json").read_text("utf-8"))["batches_of_32"]
    _lines(tmp_path, "test.t2t.de", theirs)
    _corpus(tmp_path)
    printed = _run(tmp_path)
    assert printed["t2t-lite-import"].startswith(PRINTED)
    assert _read(tmp_path / "test.de") == _read(tmp_path / "test.served.de") == theirs
    assert "Starting from the weights of runs/old, step 401.\n" in printed["t2t-lite-trainer"]


def test_a_model_made_up(tmp_path: Path) -> None:
    save(tmp_path / "t2t_train" / "model.ckpt-7", variables(rows=len(PIECES)))
    (tmp_path / "t2t_data").mkdir()
    (tmp_path / "t2t_data" / "vocab.subwords").write_bytes(file_of(PIECES))
    _lines(tmp_path, "test.en", ["the cats", "in it's 10"])
    _lines(tmp_path, "test.t2t.de", ["the cats", "what it wrote"])
    _corpus(tmp_path)
    printed = _run(tmp_path)
    names = re.findall(r"^([\w ]+):", PRINTED, re.MULTILINE)
    found = re.findall(r"^([\w ]+):", printed["t2t-lite-import"], re.MULTILINE)
    found.remove("training")  # of which no file is beside this checkpoint
    assert found[: len(names)] == names
    assert len(_read(tmp_path / "test.de")) == 2
    assert _read(tmp_path / "test.de") == _read(tmp_path / "test.served.de")
    assert "Starting from the weights of runs/old, step 7.\n" in printed["t2t-lite-trainer"]
