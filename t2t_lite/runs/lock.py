"""Locks that allow one writer per folder; the system releases them when the process ends, however it ends."""

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from t2t_lite.errors import TrainingError
from t2t_lite.files import StrPath, lock_or_warn, name_in_errors, open_lock

LOCK_FILE = ".trainer.lock"


@contextlib.contextmanager
def only_trainer(output_dir: StrPath) -> Iterator[None]:
    """Holds the lock of a run's folder, as `only_process`; makes the folder, and removes it if it stays empty."""
    folder = Path(output_dir)
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with only_process(folder / LOCK_FILE, "trainer"):
            yield
    finally:
        if made and os.listdir(folder) == [LOCK_FILE]:
            (folder / LOCK_FILE).unlink()
            folder.rmdir()


@contextlib.contextmanager
def only_process(path: Path, command: str) -> Iterator[None]:
    """Holds the lock `path` of a folder for a process of a command, such as "trainer"; the file stays and names it.

    Raises:
        TrainingError: another process holds it; the message names process and host.
    """
    with open_lock(path) as file:
        try:
            lock_or_warn(file, path.parent)
        except BlockingIOError:
            holder = file.read(1000).decode("utf-8", "replace").strip()
            raise TrainingError(
                f"Another {command} writes to {path.parent}: {holder or 'a process that has just started'}. Let it "
                "end, or stop it, or give another --output_dir."
            ) from None
        with name_in_errors(path):
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}\n".encode())
            file.flush()
        yield
