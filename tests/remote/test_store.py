"""Stores over fsspec: what their objects are called, and their errors in sentences."""

import sys
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from t2t_lite.errors import DataError, UsageError
from t2t_lite.remote import mirror
from t2t_lite.remote.mirror import fetch_url
from t2t_lite.remote.store import Store, StoreError, is_url, make_absolute


def test_urls_are_told_from_paths() -> None:
    assert all(map(is_url, ["s3://b/x", "gs://b", "memory://a/b", "abfss://c@a.x/y", "file:///tmp", "S3://b/x"]))
    assert not any(map(is_url, ["/a://b", "a/b", "C:x", "://x", "s3://", "", None]))
    assert make_absolute("s3://b/../x") == "s3://b/../x"
    assert make_absolute("~/x") == str(Path.home() / "x")


def test_one_object_is_a_file_and_several_are_a_folder(url: str, machine: object) -> None:
    Store(url).write("corpus/train.en", b"a\n")
    Store(url).write("corpus/deep/er.txt", b"b\n")
    file = Path(fetch_url(f"{url}/corpus/train.en"))
    assert (file.name, file.read_text()) == ("train.en", "a\n")
    folder = Path(fetch_url(f"{url}/corpus"))
    assert (folder / "deep/er.txt").read_text() == "b\n"
    assert mirror.name_urls(str(file)) == f"{url}/corpus/train.en"
    with pytest.raises(DataError, match=r"corp is not there: the store has no object"):
        fetch_url(f"{url}/corp")
    assert fetch_url("a/local/path") == "a/local/path"


def test_an_object_that_is_written_again_is_read_again(url: str, machine: object) -> None:
    for text in (b"one", b"two"):
        Store(url).write("a.txt", text)
        machine("first")  # type: ignore[operator]
        assert Path(fetch_url(f"{url}/a.txt")).read_bytes() == text


def test_names_that_lead_out_of_the_folder_are_refused(machine: object) -> None:
    MemoryFileSystem().pipe_file("/bucket/x", b"")
    store = Store("memory://bucket")
    for name in ("../up", "a//b", "./c", "new\nline"):
        store._fs.find = lambda root, detail, name=name: {f"/bucket/{name}": {"size": 1}}
        with pytest.raises(DataError, match="which cannot be a file"):
            store.list()
    del store._fs.find


def test_errors_are_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"fsspec cannot open memry:// .* Did you mean 'memory'"):
        Store("memry://bucket/x")
    with pytest.raises(UsageError, match=r"fsspec cannot open MEMORY:// .* Did you mean 'memory'"):
        Store("MEMORY://bucket/x")
    store = Store("memory://errors/x")
    with pytest.raises(FileNotFoundError):
        store.read("a")
    with pytest.raises(StoreError, match=r"errors/x/a cannot be read: it is not there .* somebody has removed it"):
        store.read_part("a", 0, 1)

    def fail(*args: object, **kwargs: object) -> None:
        raise RuntimeError("AccessDenied:\n no rights")

    monkeypatch.setattr(MemoryFileSystem, "pipe_file", fail)
    with pytest.raises(StoreError, match=r"memory://errors/x/a cannot be written: AccessDenied: no rights. Cred"):
        store.write("a", b"")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(UsageError, match=r"need the package fsspec: pip install 't2t-lite\[cloud\]'"):
        Store("memory://bucket/x")


@pytest.mark.skipif("s3fs" in sys.modules, reason="the package is here")
def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(UsageError, match=r"the package for this kind of store is missing: .*gcsfs"):
        Store("gs://bucket/x")
