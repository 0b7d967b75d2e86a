"""Shards: the ids of training pairs in a store elsewhere, read in parts of 64 MiB through a cache of bounded size.

The manifest has a SHA-256 of each shard, which is compared when a process first uses the shard. The cache is a folder
of files that are named by their checksums. What a process has used stays there while it runs; if its shards do not fit
all, the rest is read again each time. (The order of pairs is random, so any sweep over the file needs all shards alike,
and to replace the oldest would replace each before its next use.)
"""

import hashlib
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np

from t2t_lite.errors import DataError, UsageError
from t2t_lite.files import lock_or_warn, open_lock, replace_file
from t2t_lite.remote.store import Store as Objects

SHARD = 64 << 20  # bytes
CACHE = "T2T_LITE_DATA_CACHE"  # environment variable
_GIB = 32.0  # the cache's default bound
_AHEAD = 4  # shards that are read at once, of which each takes its size in memory

Array = np.ndarray

_log = logging.getLogger("t2t_lite")


def never() -> bool:
    """Whether to give up: no."""
    return False


def cache_bytes(text: str | None) -> int:
    """Returns the bound of the cache by the environment variable's value; UsageError where that is no number."""
    try:
        size = _GIB if text is None else float(text)
        if not 0 <= size < 1e9:
            raise ValueError
    except ValueError:
        raise UsageError(f"{CACHE}={text} must be a number of GiB from 0 on, such as {CACHE}=32.") from None
    return int(size * 2**30)


class DifferentError(Exception):
    """The bytes of a shard have another checksum, which is the argument."""


class ShardCache:
    """A folder with copies of shards, of at most `bound` bytes; several processes may share it.

    Args:
        folder: made if need be.
        bound: of all files, whatever data they are of.
    """

    def __init__(self, folder: Path, bound: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.bound = bound
        self._folder, self._verified = folder, set[str]()
        self._warned = threading.Event()
        with open_lock(folder / ".lock"):
            os.utime(folder / ".lock")
            self._begun = os.stat(folder / ".lock").st_mtime_ns  # by the clock of the files

    def load(self, checksum: str, read: Callable[[], bytes]) -> Array:
        """Returns the bytes with this SHA-256, uint8: a copy or what `read` returns; DifferentError if that differs."""
        path = self._folder / checksum
        try:
            data: Array = np.memmap(path, np.uint8, "r")
            if checksum in self._verified or _sha256(data.data) == checksum:
                os.utime(path)
                self._verified.add(checksum)
                return data
            _log.warning("%s was damaged and is read again.", path)
            path.unlink(missing_ok=True)
        except (OSError, ValueError):  # none, or an empty one
            pass
        content = read()
        if (found := _sha256(content)) != checksum:
            raise DifferentError(found)
        self._verified.add(checksum)
        try:
            self._keep(path, content)
        except OSError as error:
            if not self._warned.is_set():
                _log.warning("%s: shards are not kept there (%s), but read again each time.", self._folder, error)
            self._warned.set()
        return np.frombuffer(content, np.uint8)

    def _keep(self, path: Path, content: bytes) -> None:
        with open_lock(self._folder / ".lock") as lock:
            lock_or_warn(lock, self._folder, wait=True)
            if self._make_room(len(content)):
                replace_file(path, content)

    def _make_room(self, size: int) -> bool:
        """Removes files that were not used since this process began, oldest first; returns whether there is room."""
        files = [(path, path.stat()) for path in self._folder.iterdir() if path.name != ".lock"]
        free = self.bound - size - sum(status.st_size for _, status in files)
        for path, status in sorted(files, key=lambda file: file[1].st_mtime_ns):
            if free >= 0 or status.st_mtime_ns >= self._begun:
                break
            path.unlink(missing_ok=True)
            free += status.st_size
        return free >= 0


class RemoteIds:
    """The ids of one file in shards, elsewhere; a slice of it is an array in memory.

    Args:
        objects: where the file is.
        name: of the file.
        dtype: of the ids.
        size: of the file, in bytes.
        shard: of each shard but the last, in bytes.
        checksums: of the shards.
    """

    def __init__(
        self,
        objects: Objects,
        name: str,
        *,
        dtype: np.dtype,
        size: int,
        shard: int,
        checksums: Sequence[str],
        cache: ShardCache,
    ) -> None:
        self.dtype, self._size, self._shard = dtype, size, shard
        self._objects, self._name, self._checksums, self._cache = objects, name, checksums, cache
        self._of_shard = shard // dtype.itemsize

    def __len__(self) -> int:
        return self._size // self.dtype.itemsize

    def __getitem__(self, part: slice) -> Array:
        start, stop, _ = part.indices(len(self))
        return self.read(np.array([start]), np.array([stop]))

    def read(self, starts: Array, stops: Array, stopped: Callable[[], bool] = never) -> Array:
        """Returns the ids of some sequences, end to end; reads each shard once.

        Args:
            starts, stops: int64 [n], ascending; no sequence is in another.
            stopped: whether to give up, which is asked before each shard; then InterruptedError is raised.
        """
        ids = np.empty(int((stops - starts).sum()), self.dtype)
        changes = np.zeros(len(self._checksums) + 1, np.int64)
        np.add.at(changes, starts // self._of_shard, 1)
        np.add.at(changes, (stops - 1) // self._of_shard + 1, -1)
        done = 0
        for shard, data in self._load(np.flatnonzero(np.cumsum(changes)).tolist(), stopped):
            first = shard * self._of_shard
            part = slice(
                np.searchsorted(stops, first, "right"), np.searchsorted(starts, first + self._of_shard, "left")
            )
            begins = np.maximum(starts[part] - first, 0)
            counts = np.minimum(stops[part] - first, self._of_shard) - begins
            at = np.arange(counts.sum()) + np.repeat(begins - (np.cumsum(counts) - counts), counts)
            ids[done : done + len(at)] = data[at]
            done += len(at)
        return ids

    def verify(self) -> None:
        """Reads all shards and compares their checksums; DataError names the first that differs."""
        for _ in self._load(range(len(self._checksums)), never):
            pass

    def _load(self, shards: Iterable[int], stopped: Callable[[], bool]) -> Iterator[tuple[int, Array]]:
        """Yields shards as ids, in the given order; some are read ahead."""
        coming: deque[tuple[int, Future[Array]]] = deque()
        with ThreadPoolExecutor(_AHEAD, "t2t-lite-shards") as readers:
            for shard in shards:
                if stopped():
                    raise InterruptedError
                coming.append((shard, readers.submit(self._load_one, shard)))
                if len(coming) > _AHEAD:
                    number, data = coming.popleft()
                    yield number, data.result().view(self.dtype)
            for number, data in coming:
                yield number, data.result().view(self.dtype)

    def _load_one(self, shard: int) -> Array:
        start, stop = shard * self._shard, min((shard + 1) * self._shard, self._size)
        wanted = self._checksums[shard]
        try:
            return self._cache.load(wanted, lambda: self._objects.read_part(self._name, start, stop))
        except DifferentError as error:
            raise DataError(
                f"{self._objects.url}/{self._name} is damaged: shard {shard + 1} of {len(self._checksums)}, bytes "
                f"{start:,} to {stop - 1:,}, has the checksum {error!s:.12}..., and the manifest {wanted[:12]}.... "
                "Copy the prepared data there again."
            ) from None


def _sha256(data: bytes | memoryview) -> str:
    return hashlib.sha256(data).hexdigest()
