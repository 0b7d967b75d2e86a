"""Doubles among very many hashes, in time linear in their number and in bounded memory."""

import contextlib
import tempfile
from pathlib import Path
from typing import IO

import numpy as np

_PARTS = 64  # files that are open at once, where there are many hashes
_IN_MEMORY = 1 << 22  # hashes that wait for being written, 64 MB
_ENTRY = np.dtype([("hash", "<u8"), ("number", "<u8")])


class Doubles:
    """Finds hashes that came before: hashes that begin alike are kept in one part, and each part is sorted by itself.

    Args:
        folder: for the parts of more than four million hashes, 16 bytes for each, in files without a name that end with
            the process; None: the system's folder for such files.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._parts: list[list[np.ndarray]] = [[] for _ in range(_PARTS)]
        self._files: list[IO[bytes]] = []
        self._open = contextlib.ExitStack()
        self._waiting = 0

    def add(self, hashes: np.ndarray, numbers: np.ndarray) -> None:
        """Adds hashes, uint64 [n], with their numbers, int [n], which ascend from call to call."""
        entries = np.empty(len(hashes), _ENTRY)
        entries["hash"], entries["number"] = hashes, numbers
        parts = (hashes % np.uint64(_PARTS)).astype(np.uint8)
        entries = entries[np.argsort(parts, kind="stable")]
        ends = np.cumsum(np.bincount(parts, minlength=_PARTS))
        for part, found in zip(self._parts, np.split(entries, ends[:-1]), strict=True):
            part.append(found)
        self._waiting += len(hashes)
        if self._waiting > _IN_MEMORY:
            self._write()

    def later(self) -> np.ndarray:
        """Returns the numbers of all hashes that are not the first of their kind, uint64, in no order; call it once."""
        with self._open:
            return np.concatenate([self._later_in(i) for i in range(_PARTS)])

    def _later_in(self, i: int) -> np.ndarray:
        written = []
        if self._files:
            self._files[i].seek(0)
            written = [np.frombuffer(self._files[i].read(), _ENTRY)]
        entries = np.concatenate([*written, *self._parts[i]])
        self._parts[i] = []
        entries = entries[np.argsort(entries["hash"], kind="stable")]
        return entries["number"][1:][entries["hash"][1:] == entries["hash"][:-1]]

    def _write(self) -> None:
        if not self._files:
            new = (tempfile.TemporaryFile(dir=self._folder) for _ in range(_PARTS))  # noqa: SIM115 - `later` closes them
            self._files = [self._open.enter_context(file) for file in new]
        for file, part in zip(self._files, self._parts, strict=True):
            file.writelines(entries.tobytes() for entries in part)
            part.clear()
        self._waiting = 0
