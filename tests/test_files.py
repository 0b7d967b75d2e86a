"""Files written whole or not at all."""

import concurrent.futures
import errno
import fcntl
import multiprocessing
import os
import stat
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any

import pytest

from t2t_lite import files
from t2t_lite.errors import DamagedError, DataError
from t2t_lite.files import asides, file_lock, read_json, replace_file, staging_dir
from t2t_lite.runs import lock


def test_a_file_is_replaced_whole_and_nothing_else_stays(tmp_path: Path) -> None:
    for text in ("eins\n", "zwei\r\u2028\n"):
        replace_file(tmp_path / "a.json", text)
        assert (tmp_path / "a.json").read_bytes() == text.encode()
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_what_fails_leaves_the_file_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_file(tmp_path / "a.json", "old")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        replace_file(tmp_path / "a.json", "new")
    assert (tmp_path / "a.json").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP])
def test_a_folder_that_cannot_be_synced_is_written_to_with_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    real = os.fsync

    def refuse(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(number, os.strerror(number))
        real(handle)

    files._warn_unsynced.cache_clear()
    monkeypatch.setattr(os, "fsync", refuse)
    for text in ("one", "two"):
        replace_file(tmp_path / "a.json", text)
        assert (tmp_path / "a.json").read_text() == text
    assert [record.getMessage().partition(" (")[0] for record in caplog.records] == [
        "This file system does not write at once when asked to"
    ]


def test_an_error_of_a_folder_or_an_open_file_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(handle: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", broken)
    for write in (lambda: files.sync(tmp_path), lambda: replace_file(tmp_path / "a.json", "text")):
        with pytest.raises(OSError, match=f"{os.strerror(errno.EIO)}: '{tmp_path}"):
            write()


def test_no_temporary_file_or_lock_writes_to_what_a_link_leads_to(tmp_path: Path) -> None:
    """Their names can be foreseen by others who can write to the folder."""
    victim, run = tmp_path / "victim", tmp_path / "run"
    victim.write_text("precious")
    run.mkdir()
    places = {
        f".a.json.{os.getpid()}": lambda: replace_file(run / "a.json", "text"),
        ".store.lock": lambda: file_lock(run / "store").__enter__(),
        lock.LOCK_FILE: lambda: lock.only_trainer(run).__enter__(),
    }
    for name, write in places.items():
        (run / name).symlink_to(victim)
        with pytest.raises(OSError, match=f"it is a link or no regular file; remove it: '{run / name}'"):
            write()
    assert victim.read_text() == "precious"


def test_what_killed_processes_have_left_goes_and_what_others_write_stays(tmp_path: Path) -> None:
    for name in (".a.json.7", ".a.json.99999", ".a.json.part", ".ab.json.7", "a.json.7"):
        (tmp_path / name).write_text("left")
    with open(tmp_path / ".a.json.99999", "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # its process is alive
        replace_file(tmp_path / "a.json", b"new")
        assert (tmp_path / "a.json").read_bytes() == b"new"
        left = {path.name for path in tmp_path.iterdir()}
        assert left == {"a.json", ".a.json.99999", ".a.json.part", ".ab.json.7", "a.json.7"}


@pytest.mark.commit
def test_many_writers_of_one_file_never_lose_it(tmp_path: Path) -> None:
    """Each writer cleans up after the others, and takes no active writer for a dead one."""
    with concurrent.futures.ProcessPoolExecutor(4, mp_context=multiprocessing.get_context("fork")) as pool:
        list(pool.map(_write_often, [tmp_path / "a.json"] * 4))
    assert (tmp_path / "a.json").read_text() == "text"
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def _write_often(path: Path) -> None:
    for _ in range(150):
        replace_file(path, "text")


def test_a_folder_is_written_without_locks_and_what_others_may_write_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / ".data.partial-99999").mkdir()
    with file_lock(tmp_path / "data"):
        assert asides(tmp_path / "data") == []  # left by a process that was killed
    (tmp_path / ".data.partial-99999").mkdir()

    def none(file: object, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", none)
    staging_dir(tmp_path / "data").mkdir()  # of a killed process with the number of this one, as in containers
    for _ in range(2):
        with file_lock(tmp_path / "data"):
            assert asides(tmp_path / "data") == [tmp_path / ".data.partial-99999"]
    assert caplog.messages == [f"{tmp_path / 'data'} cannot be locked; see to it that no other process writes there."]


class BadToClose:
    """A file whose close fails, although all is written."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def close(self) -> None:
        self._file.close()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("locked", [file_lock, lock.only_trainer])
def test_a_lock_that_cannot_be_closed_spoils_no_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locked: Callable[[Path], AbstractContextManager[object]]
) -> None:
    """An import was whole, but said that it had failed; and the same command refuses a folder that is there."""
    opened = []

    def open_badly(*args: Any) -> BadToClose:
        opened.append(BadToClose(open(*args)))  # noqa: SIM115 (closed by who has opened it)
        return opened[-1]

    monkeypatch.setattr(files, "open", open_badly, raising=False)
    folder = tmp_path / "folder"
    folder.mkdir()
    with locked(folder):
        assert len(opened) == 1
    assert [path.name for path in folder.iterdir() if path.name != lock.LOCK_FILE] == []


@pytest.mark.parametrize("text", ["{", "[" * 100_000, "[1]", '{"format": 1}', '{"format": 1, "name": 3}'])
def test_json_that_is_damaged(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(DamagedError, match=r"a\.json is damaged \(\w+Error: .+\)\. Make it again\."):
        read_json(tmp_path / "a.json", 1, {"name": str}, "Make it again.")


def test_json_of_another_format_is_not_damaged(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"format": 2, "name": "x"}')
    with pytest.raises(DataError, match="has the format number 2; this version of t2t-lite reads format 1") as caught:
        read_json(tmp_path / "a.json", 1, {"name": str})
    assert not isinstance(caught.value, DamagedError)
