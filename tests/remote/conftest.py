"""Stores of tests: fsspec's memory, and a folder in which nothing can be renamed; and machines that see them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from t2t_lite.remote import mirror


class NoRename(LocalFileSystem):
    """A disk on which files can be written, read and removed, and not renamed."""

    protocol = "norename"

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return super()._strip_protocol(path.removeprefix("norename://"))

    def mv(self, *args: Any, **kwargs: Any) -> None:
        raise OSError("nothing can be renamed here")

    move = rename = mv_file = mv


fsspec.register_implementation("norename", NoRename, clobber=True)


@pytest.fixture(params=["memory", "norename"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty folder in a store."""
    MemoryFileSystem.store.clear()
    yield "memory://bucket/runs/a" if request.param == "memory" else f"norename://{tmp_path}/disk/runs/a"
    MemoryFileSystem.store.clear()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """A function that continues as a new process on a machine of this name, with a cache of its own."""

    def go_to(name: str) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / f"cache-{name}"))
        for held in mirror._open.values():
            held.close()
        monkeypatch.setattr(mirror, "_open", {})

    go_to("first")
    yield go_to
    go_to("last")
