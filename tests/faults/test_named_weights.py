"""Paths that name weights mean the same wherever they are given, and a folder's name is no damage."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import t2t_lite
from t2t_lite.errors import DataError, UsageError
from t2t_lite.runs.checkpoint import find
from t2t_lite.runs.named_weights import parse_weights_path
from t2t_lite.training import warm_start
from tests import commands
from tests.faults.material import contents

Run = Callable[..., tuple[int, str]]

# A path in the run -> what --checkpoint would be; the run has made two steps, and kept both checkpoints.
FORMS = {
    "": None,
    "/": None,
    "best": "best",
    "best/": "best",
    "best/model-2": "best",
    "best/model-2.index": "best",
    "checkpoints": "newest",
    "checkpoints/model-1": "1",
    "checkpoints/model-1.index": "1",
    "checkpoints/model-1.data-00000-of-00001": "1",
}


@pytest.mark.parametrize("form", FORMS)
def test_one_path_names_the_same_weights_everywhere(trained: Path, form: str) -> None:
    path, which = f"{trained}/{form}", FORMS[form]
    assert parse_weights_path(path) == (trained, which)
    run, checkpoint = warm_start._find(path, with_optimizer=False)
    assert (run, checkpoint) == (trained, find(trained, which))


@pytest.mark.nightly
def test_load_and_the_trainer_take_them(run: Run, trained: Path, tmp_path: Path) -> None:
    for form in ("best", "checkpoints/model-1.index"):
        loaded = t2t_lite.load(trained / form)
        assert isinstance(loaded, t2t_lite.api.load.LoadedRun)
        assert loaded.checkpoint == find(trained, FORMS[form])
    flags = [f"--source_dir={trained.parent / 'corpus'}", f"--vocabulary={trained}", f"--output_dir={tmp_path / 'new'}"]
    recipe = "num_layers=1,d_model=32,d_ff=64,num_heads=2,batch_tokens=256,max_length=32,train_steps=1"
    flags += ["--problem=text2text", "--languages=en-de", "--hparams_set=tiny", f"--hparams={recipe}"]
    status, said = run("trainer", *flags, f"--warm_start_from={trained / 'best'}")
    assert status == 0, said


def test_what_names_no_weights(trained: Path, tmp_path: Path) -> None:
    assert parse_weights_path(tmp_path / "nothing") is None
    assert parse_weights_path("/") is None
    for path, said in (
        ("data", "is no checkpoint of"),
        ("best/model-9", "is not there, or no longer: .*best holds model-2"),
    ):
        with pytest.raises(DataError, match=said):
            parse_weights_path(trained / path)
    with pytest.raises(UsageError, match="There is no checkpoint '9'"):
        warm_start._find(f"{trained}/checkpoints/model-9", with_optimizer=False)
    with pytest.raises(DataError, match="There is no run or checkpoint at"):
        warm_start._find(f"{tmp_path}/nothing", with_optimizer=False)


COMMANDS = {
    "trainer": ["--problem=toy_reverse"],
    "decoder": [],
    "eval": [],
    "exporter": [],
    "avg_checkpoints": [],
    "insights": ["--sentence=a"],
    "demo": ["--port=0"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_on_a_run_say_which_run_and_which_weights(run: Run, copy: Path, command: str) -> None:
    before = contents(copy)
    for form in ("best", "checkpoints/model-1"):
        status, said = run(command, *COMMANDS[command], f"--output_dir={copy}/{form}")
        assert (status, said.count("\n")) == (2, 1), said
        assert f"Give --output_dir={copy}; commands that take one of its checkpoints" in said
        assert f"--checkpoint={FORMS[form]}." in said
    assert contents(copy) == before


@pytest.mark.commit
@pytest.mark.parametrize("command", COMMANDS)
def test_a_folder_name_that_is_not_utf8_is_named_before_any_work(trained: Path, tmp_path: Path, command: str) -> None:
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/l\xe4uf")
    shutil.copytree(trained, folder)
    before = contents(Path(folder))
    flags = COMMANDS[command] if command != "trainer" else []
    done = commands.call(command, *flags, f"--output_dir={folder}")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "l\\udce4uf: TensorFlow takes only paths that are UTF-8. Give another." in done.stderr
    assert contents(Path(folder)) == before


@pytest.mark.commit
def test_other_flags_whose_names_are_not_utf8(tmp_path: Path) -> None:
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/l\xe4uf")
    (tmp_path / "vocabulary").write_text("'a'\n")
    given = {
        "decoder": [f"--saved_model={folder}"],
        "importer": [
            f"--checkpoint={folder}",
            f"--vocabulary={tmp_path / 'vocabulary'}",
            f"--output_dir={tmp_path / 'new'}",
        ],
        "trainer": ["--problem=toy_reverse", f"--warm_start_from={folder}", f"--output_dir={tmp_path / 'new'}"],
    }
    for command, flags in given.items():
        done = commands.call(command, *flags)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
        assert "paths that are UTF-8" in done.stderr
    with pytest.raises(UsageError, match="paths that are UTF-8"):
        t2t_lite.load(folder)
