"""Files written whole or not at all."""

import concurrent.futures
import errno
import fcntl
import hashlib
import multiprocessing
import os
from pathlib import Path

import pytest

from t2t_lite.files import asides, file_lock, replace_file, sha256_of, staging_dir


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


def test_what_killed_processes_have_left_goes_and_what_others_write_stays(tmp_path: Path) -> None:
    for name in (".a.json.7", ".a.json.99999", ".a.json.part", ".ab.json.7", "a.json.7"):
        (tmp_path / name).write_text("left")
    with open(tmp_path / ".a.json.99999", "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # its process is alive
        replace_file(tmp_path / "a.json", b"new")
        assert (tmp_path / "a.json").read_bytes() == b"new"
        left = {path.name for path in tmp_path.iterdir()}
        assert left == {"a.json", ".a.json.99999", ".a.json.part", ".ab.json.7", "a.json.7"}


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


def test_a_checksum_is_of_the_whole_file(tmp_path: Path) -> None:
    data = b"0123456789abcdef" * 100_000
    (tmp_path / "file").write_bytes(data)
    assert sha256_of(tmp_path / "file") == hashlib.sha256(data).hexdigest()
