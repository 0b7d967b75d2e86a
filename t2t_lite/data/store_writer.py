"""Writing a token store: in a separate folder, then put in place by one rename; the store is complete or absent."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from t2t_lite.data.encode import Side
from t2t_lite.data.shards import SHARD
from t2t_lite.data.store import FORMAT, MANIFEST, ORIGIN
from t2t_lite.files import file_lock, name_in_errors, staging_dir, sync, sync_open
from t2t_lite.text.unknown_pieces import UnknownPieces


class StoreWriter:
    """Writer of a store. `finish` puts it in place; leaving the `with` block without that removes it.

    Args:
        folder: the store's final folder; its parent must exist. A store that is already there is replaced.

    Attributes:
        aside: the folder in which it is written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.aside = staging_dir(folder)
        self._files: list[_File] = []

    def __enter__(self) -> StoreWriter:
        self.aside.mkdir()
        return self

    def __exit__(self, *error: object) -> None:
        for file in self._files:
            file.abandon()
        shutil.rmtree(self.aside, ignore_errors=True)

    def file(self, name: str, *, in_shards: bool = False) -> _File:
        """Opens a new file of the store for writing bytes; with checksums of its shards, too, if they are asked for."""
        self._files.append(_File(self.aside / name, in_shards=in_shards))
        return self._files[-1]

    def finish(self, facts: dict[str, Any], origin: str | None = None) -> None:
        """Writes the manifest (`facts`, the format, and each file's size and checksum) and puts the store in place.

        Args:
            origin: the text of origin.json, which may change later and so is not in the manifest; None: no such file.
        """
        files = {file.path.name: file.close() for file in self._files}
        shards = {file.path.name: file.shards() for file in self._files if file.in_shards}
        manifest = {"format": FORMAT, **facts, "files": files, "shards": {"bytes": SHARD, "files": shards}}
        for name, text in ((ORIGIN, origin), (MANIFEST, json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")):
            if text is not None:
                last = _File(self.aside / name)
                last.write(text.encode())
                last.close()
        sync(self.aside)
        old = _path_of_old(self._folder)
        if self._folder.exists():
            shutil.rmtree(old, ignore_errors=True)
            os.rename(self._folder, old)
        os.rename(self.aside, self._folder)
        sync(self._folder.parent)
        shutil.rmtree(old, ignore_errors=True)


def recover(folder: Path) -> None:
    """Restores a store whose replacement was killed between the two renames."""
    if _path_of_old(folder).exists() and not folder.exists():
        with file_lock(folder):
            if not folder.exists():  # a process may have been between the two renames when this was first checked
                os.rename(_path_of_old(folder), folder)


def _path_of_old(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.replaced")


class SequenceWriter:
    """Writes one side of one split: its ids and their offsets.

    Args:
        size: pieces of the vocabulary; decides the type of the ids.

    Attributes:
        unknown: the unknown pieces so far.
        lost: see `Side`.
    """

    def __init__(self, writer: StoreWriter, name: str, size: int) -> None:
        self._dtype = "<u2" if size <= 1 << 16 else "<u4"
        self.unknown, self.lost = UnknownPieces(), 0
        self._ids = writer.file(f"{name}.ids", in_shards=name.startswith("train."))
        self._offsets = writer.file(f"{name}.offsets")
        self._offsets.write(np.zeros(1, "<i8").tobytes())
        self._end = self._longest = 0

    def write(self, side: Side) -> None:
        """Appends the sequences of a chunk."""
        self._ids.write(side.ids.astype(self._dtype, copy=False).tobytes())
        self._offsets.write((self._end + np.cumsum(side.lengths)).astype("<i8").tobytes())
        self._end += len(side.ids)
        self._longest = max(self._longest, int(side.lengths.max(initial=0)))
        self.unknown.merge(side.unknown)
        self.lost += side.lost

    def facts_of_links(self) -> dict[str, Any]:
        """What the manifest says about alignments: numbers in the file, and pairs whose links were lost."""
        return {"dtype": self._dtype, "ids": self._end, "lost": self.lost}

    def facts(self) -> dict[str, Any]:
        """What the manifest says about this side: ids, the longest sequence (including EOS) and unknown pieces."""
        return {"dtype": self._dtype, "ids": self._end, "longest": self._longest, "unknown": self.unknown.unknown}


class _File:
    """A file that knows its checksum; `close` makes sure that it is on the disk."""

    def __init__(self, path: Path, *, in_shards: bool = False) -> None:
        self.path, self.in_shards = path, in_shards
        self._file = open(path, "wb")  # noqa: SIM115 - closed by close or abandon
        self._digest = hashlib.sha256()
        self._size, self._of_shards = 0, [hashlib.sha256()]

    def write(self, data: bytes) -> None:
        with name_in_errors(self.path):
            self._file.write(data)
        self._digest.update(data)
        if self.in_shards:
            self._add_to_shards(memoryview(data))

    def _add_to_shards(self, data: memoryview) -> None:
        while len(data):
            part = data[: SHARD - self._size % SHARD]
            self._of_shards[-1].update(part)
            self._size, data = self._size + len(part), data[len(part) :]
            if self._size % SHARD == 0:
                self._of_shards.append(hashlib.sha256())

    def shards(self) -> list[str]:
        """The checksums of the shards of what was written."""
        return [digest.hexdigest() for digest in self._of_shards[: -(-self._size // SHARD)]]

    def close(self) -> dict[str, Any]:
        with name_in_errors(self.path):
            self._file.flush()
            sync_open(self._file.fileno(), self.path)
            size = self._file.tell()
            self._file.close()
        return {"bytes": size, "sha256": self._digest.hexdigest()}

    def abandon(self) -> None:
        # If the disk is full, the rest of the buffer cannot be written; it is not needed either.
        with contextlib.suppress(OSError):
            self._file.close()
