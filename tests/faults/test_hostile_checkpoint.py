"""Checkpoints that a stranger made: no command ends abruptly or waits for ever, whatever their files say or are."""

import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.errors import DamagedError, DataError
from t2t_lite.importers.tf1_checkpoint import Tf1Checkpoints
from t2t_lite.runs.checkpoint import RECORD, find, variable_key
from t2t_lite.runs.record import read_record
from tests import commands
from tests.faults.hostile_index import cases, write

pytestmark = pytest.mark.commit

Run = Callable[..., tuple[int, str]]


def test_an_index_whose_checksums_are_right_ends_no_process() -> None:
    done = commands.run("tests.faults.hostile_index", "--cases=300")
    said = [line.partition(": ") for line in done.stdout.decode().split("\n")[:-1]]
    assert done.returncode == 0, said[-1]
    assert said[0] == ("nothing", ": ", "read")
    known = dict.fromkeys(cases())
    assert [name for name, _, outcome in said if outcome == "read" and name in known] == []
    assert len(said) == 1 + len(known) + 300


@pytest.fixture
def alarm() -> Iterator[None]:
    """Ends a test that waits for a pipe, or reads a device without end."""
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail("no answer in 20 seconds"))
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)


ODD = {
    "a pipe": os.mkfifo,
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a folder": Path.mkdir,
}


@pytest.mark.usefixtures("alarm")
@pytest.mark.parametrize("ending", ["index", "data-00000-of-00001"])
@pytest.mark.parametrize("odd", ODD)
def test_a_file_that_is_none_is_refused(tmp_path: Path, ending: str, odd: str) -> None:
    path = write(tmp_path / "model-3", next(iter(cases().values()))[0])
    os.unlink(f"{path}.{ending}")
    ODD[odd](Path(f"{path}.{ending}"))
    for read in (read_record, lambda path: Tf1Checkpoints([path])):
        with pytest.raises(DataError, match=rf"model-3\.{ending} is not a regular file|no file model-3\.index"):
            read(path)


STEP, RECORD_KEY = variable_key("step"), variable_key(RECORD)
OF_OTHER_KINDS = {
    "a step of two numbers": (STEP, np.array([1, 2])),
    "a step before the first": (STEP, np.int64(-1)),
    "a step without end": (STEP, np.float64("inf")),
    "a step in words": (STEP, np.array(b"2")),
    "a record that is a number": (RECORD_KEY, np.float32(1)),
    "records": (RECORD_KEY, np.array([b"{}", b"{}"])),
    "a record of other types": (RECORD_KEY, np.array(b'{"format": 1, "problem": 1}')),
    "weights in words": ("", None),
}


@pytest.mark.parametrize("kind", OF_OTHER_KINDS)
def test_values_of_another_kind_are_a_sentence(run: Run, copy: Path, tmp_path: Path, kind: str) -> None:
    path = find(copy)
    reader = tf.train.load_checkpoint(path)
    values = {key: reader.get_tensor(key) for key in reader.get_variable_to_shape_map()}
    key, value = OF_OTHER_KINDS[kind]
    if value is None:
        key = next(key for key in values if key.startswith("weights/"))
        value = np.full(values[key].shape, b"1")
    values[key] = value
    names = sorted(values)
    tf.raw_ops.SaveV2(
        prefix=path,
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=[tf.constant(values[name]) for name in names],
    )
    (tmp_path / "lines").write_text("line 1 of 1\n")
    status, said = run("decoder", f"--output_dir={copy}", f"--input={tmp_path / 'lines'}")
    assert (status, said.count("\n")) == (1, 1), said
    assert re.match(f"error: The checkpoint {path} (cannot be read: |is damaged)", said)


@pytest.mark.usefixtures("alarm")
def test_commands_name_the_checkpoint(run: Run, copy: Path, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("line 1 of 1\n")
    for path in copy.rglob("*.index"):
        write(path.with_suffix(""), cases()["a shape that is negative"][0])
    flags = {
        "decoder": [f"--input={tmp_path / 'lines'}"],
        "exporter": [],
        "avg_checkpoints": ["--last=1"],
        "trainer": [],
    }
    for command, more in flags.items():
        status, said = run(command, f"--output_dir={copy}", *more)
        assert (status, "damaged or incomplete (weights has a shape that no weights have)" in said) == (1, True), said
        assert ("Choose another with --checkpoint" in said) == (command in ("decoder", "exporter", "avg_checkpoints"))


@pytest.mark.usefixtures("alarm")
@pytest.mark.parametrize("name", ["vocabulary.model", "default_weights.json", "problem.json", "tags.json"])
def test_a_run_with_a_pipe_is_refused(run: Run, copy: Path, name: str) -> None:
    (copy / name).unlink(missing_ok=True)
    os.mkfifo(copy / name)
    status, said = run("decoder", f"--output_dir={copy}")
    assert (status, said) == (1, f"error: {copy / name} is not a regular file; no run has such. Remove it.\n")


def test_what_the_system_refuses_to_read_is_no_damage(copy: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """So nothing is renamed, and no mean is made of fewer checkpoints."""
    before = sorted(copy.rglob("*"))
    real = os.open

    def refuse(path: str | Path, *args: int, **options: int) -> int:
        if str(path).endswith(".data-00000-of-00001"):
            raise PermissionError(13, os.strerror(13), str(path))
        return real(path, *args, **options)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(DataError, match=r"00001: Permission denied\. That says nothing of what it holds\.") as error:
        read_record(find(copy))
    assert not isinstance(error.value, DamagedError)
    status, said = run("trainer", f"--output_dir={copy}", "--train_steps=3")
    assert (status, "Permission denied" in said) == (1, True)
    assert sorted(copy.rglob("*")) == before
