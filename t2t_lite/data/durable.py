"""Files that outlive a crash: written aside, forced onto the disk, put in place by a rename; and who may write them."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # not a Unix system
    fcntl = None  # type: ignore[assignment]


def sync(path: Path) -> None:
    """Returns when a file, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace_file(path: Path, text: str) -> None:
    """Writes a file whole or not at all, in place of the one before."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        aside.write_text(text, encoding="utf-8", newline="\n")
        sync(aside)
        os.replace(aside, path)
    except OSError:
        aside.unlink(missing_ok=True)
        raise
    sync(path.parent)


def aside_folder(folder: Path) -> Path:
    """Where this process may write what is to stand in `folder`; see `exclusive`."""
    return folder.with_name(f".{folder.name}.partial-{os.getpid()}")


@contextlib.contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Waits until no other process writes `folder`; then removes what a killed one has left beside it."""
    with open(folder.with_name(f".{folder.name}.lock"), "wb") as lock:
        if fcntl is not None:
            fcntl.flock(lock, fcntl.LOCK_EX)  # given back by the system when the process ends, however it ends
        for stale in asides(folder):
            shutil.rmtree(stale, ignore_errors=True)
        yield


def asides(folder: Path) -> list[Path]:
    """What processes write, or killed ones have left, beside `folder`."""
    return sorted(folder.parent.glob(f".{folder.name}.partial-*"))
