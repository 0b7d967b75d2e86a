"""Mirror: a working copy, on this machine's disk, of a folder in a store, such as a run in s3://bucket/runs/a.

All else of this package reads and writes the working copy as any folder: it is locked, mapped into memory, and its
files are renamed. `open_folder` turns a URL into its path and takes over what the store has; `push` uploads what has
changed, data before what names them; `fetch` takes over what was left out at first.

Working copies are in the user's cache folder, remote/HASH/N/: the files, mirror.json, which says what of the store they
are, and a lock. N counts the processes that have the same URL open: each has a copy of its own. What a trainer could
not upload, as it was killed or the store out of reach, stays in its copy for the next one, unless somebody else has
written to the store since: then the store is right. Other commands leave such a copy alone.

Of the workers of a job, only the chief uploads. The others have copies called worker0, worker1 and so on, in which the
store is always right.
"""

import contextlib
import dataclasses
import filecmp
import functools
import hashlib
import itertools
import logging
import math
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from t2t_lite.errors import DataError, T2TError, UsageError
from t2t_lite.files import (
    StrPath,
    json_text,
    lock_or_warn,
    open_own,
    read_json,
    replace_file,
    users_folder,
)
from t2t_lite.remote.lease import Lease
from t2t_lite.remote.store import Entry, Store, StoreError, is_url

MIRROR_FILE, FORMAT = "mirror.json", 1
_NOTE_SECONDS = 5.0  # between two notes of what is downloaded: what is not noted is downloaded again after a kill
# What is needed at once to open a run: its small files, and which checkpoints there are.
SMALL = re.compile(r"[^/]+|imported/.*|(checkpoints|best|averaged|ema)/[^/]*\.index")
# The order of an upload: data, then what makes them count, the checkpoint that a run resumes from after the scores that
# were computed before it. What none of these names comes first.
_ORDER = (
    r"(best|averaged|ema)/[^/]*\.index|(.*/)?manifest\.json",
    r"metrics\.jsonl",
    r"checkpoints/[^/]*\.index",
    r"(.*/)?(checkpoint|default_weights\.json|problem\.json|saved_model\.pb|model\.(bin|npz|safetensors))",
    r"hparams\.json",
)

_NOTES = re.compile(r"(.*/)?origin\.json")  # beside prepared data: paths and times of their sources, as seen from here
Wanted = Callable[[str], object]  # whether a file is downloaded, by its name

_log = logging.getLogger("t2t_lite")
_open: dict[str, "Mirror"] = {}  # by URL


@dataclasses.dataclass(frozen=True)
class _Copy:
    """A file of the working copy as it was when it was equal to an object; `mtime_ns` is 0 where only that is there."""

    size: int
    version: str
    mtime_ns: int

    @property
    def is_here(self) -> bool:
        return self.mtime_ns > 0


class Mirror:
    """The working copy of one folder, or of one object.

    Args:
        url: of the folder or object.
        keep: whether to take a copy in which something was not uploaded, to make up for it.
        follows: whether it is that of a worker, which uploads nothing.

    Attributes:
        store: what it is a copy of.
        folder: the working copy.
        lease: the lease of the store's folder, where one is needed to write there.
    """

    def __init__(self, url: str, *, keep: bool = False, follows: bool = False) -> None:
        self.store, self.follows = Store(url), follows
        self.lease: Lease | None = None
        base = users_folder(os.environ) / "remote" / hashlib.sha256(self.store.url.encode()).hexdigest()[:16]
        for number in itertools.count():
            self._home = base / (f"worker{number}" if follows else str(number))
            self.folder = self._home / (re.sub(r"[^\w.-]", "_", self.store.url.rpartition("/")[2]) or "files")
            if (lock := _lock(self._home)) is None:
                continue
            self._copies = self._read_copies()
            if keep or follows or not self._not_uploaded():
                self._lock = lock
                break
            lock.close()
        self._told = False  # what was not uploaded
        self._write_copies()  # a folder beside this file is a working copy

    def close(self) -> None:
        """Leaves the working copy to other processes."""
        self._lock.close()

    @property
    def path(self) -> Path:
        """The working copy: of one object, the file."""
        return self.folder / self.store.name if self.store.is_object else self.folder

    def pull(self, wanted: Wanted = lambda name: True) -> None:
        """Makes the working copy equal to the store, or leaves it as it is if it only has more.

        Args:
            wanted: which files are downloaded; of others it is only noted that they are there.
        """
        there = {name: entry for name, entry in self.store.list().items() if _is_mirrored(name)}
        more = [] if self.follows else self._not_uploaded()
        ahead = self._find_ahead(there) if more else None
        if more and not self._told:
            self._told = True
            what = "others have written to it since, so they are left out" if ahead is None else "they are kept"
            _log.warning(
                "%s: an earlier process has not uploaded %d files, such as %s; %s.",
                self.store.url,
                len(more),
                more[0],
                what,
            )
        if ahead is None:
            self._clear({name for name in there if self._is_equal(name, there[name])})
            before = self._copies
            ahead = {name: _Copy(entry.size, entry.version, 0) for name, entry in there.items()}
            ahead |= {name: before[name] for name in there if self._path(name).exists()}
        self._copies = ahead
        for folder in {self.folder, *(self._path(name).parent for name in there)}:
            folder.mkdir(parents=True, exist_ok=True)
        self.download(wanted)

    def _find_ahead(self, there: dict[str, Entry]) -> dict[str, _Copy] | None:
        """Returns what the working copy has of the store, if it is all that is `there`; None: others have written."""
        here, found = self._scan(), {}
        if any(name in here for name in self._copies.keys() - there.keys()):
            return None
        for name, entry in there.items():
            copy = self._copies.get(name)
            if copy is not None and entry.version and copy.version == entry.version:
                found[name] = copy
            elif name in here and self._has_content(name, entry):  # uploaded, and not noted any more
                found[name] = _Copy(entry.size, entry.version, here[name].st_mtime_ns)
            else:
                return None
        return found

    def _has_content(self, name: str, entry: Entry) -> bool:
        """Whether a file and an object are equal."""
        path, other = self._path(name), self._home / "compared"
        if path.stat().st_size != entry.size:
            return False
        try:
            self.store.download(name, other)
        except FileNotFoundError:  # somebody has removed it since it was listed
            return False
        return filecmp.cmp(path, other, shallow=False)

    def download(self, wanted: Wanted) -> None:
        """Downloads the files that are `wanted` and not here."""
        self._download([name for name in self._copies if wanted(name)])

    def fetch(self, path: StrPath) -> None:
        """Downloads what the store has under a path of the working copy: a file, a folder or a checkpoint."""
        start = self._name(path)
        self._download(
            [name for name in self._copies if start in (".", name) or name.startswith((f"{start}/", f"{start}."))]
        )

    @property
    def names(self) -> list[str]:
        """The names of the objects that the store has."""
        return list(self._copies)

    def has(self, path: StrPath) -> bool:
        """Whether a file is in the working copy or, not downloaded yet, in the store."""
        return os.path.exists(path) or self._name(path) in self._copies

    def push(self) -> None:
        """Uploads what has changed and removes what is gone; raises TrainingError if the lease is lost."""
        if self.follows:
            return
        here = self._scan()
        gone = [name for name, copy in self._copies.items() if copy.is_here and name not in here]
        gone += [name for name in self._copies if any(_is_data_of(name, index) for index in gone)]
        changed = self._changed(here)
        if not changed and not gone:
            return
        self._check_lease()
        for name in sorted(changed, key=_rank):
            if name.endswith(".index"):  # uploads of its data may have taken long
                self._check_lease()
            here[name] = self._path(name).stat()
            self.store.upload(self._path(name), name)
        for name in sorted(set(gone), key=lambda name: not name.endswith(".index")):
            self.store.remove(name)
        there = self.store.list()
        self._copies = {name: copy for name, copy in self._copies.items() if name not in gone}
        for name in changed:
            found, status = there.get(name), self._path(name).stat()
            # TensorBoard's file may have grown meanwhile; it is uploaded again the next time.
            same = (status.st_size, status.st_mtime_ns) == (here[name].st_size, here[name].st_mtime_ns)
            if found is None or (same and found.size != status.st_size):
                raise StoreError(f"{self.store.url}/{name} was uploaded, and the store does not hold all of it.")
            self._copies[name] = _Copy(here[name].st_size, found.version, here[name].st_mtime_ns)
        self._write_copies()

    def _check_lease(self) -> None:
        if self.lease is not None:
            self.lease.check()

    def _download(self, names: list[str]) -> None:
        names = [name for name in names if not self._copies[name].is_here]
        if (size := sum(self._copies[name].size for name in names)) > 10**7:
            _log.info("%s: downloading %d files, %.1f MB.", self.store.url, len(names), size / 1e6)
        noted = -math.inf
        for name in sorted(names, key=_rank):
            if time.monotonic() > noted + _NOTE_SECONDS:
                self._write_copies()
                noted = time.monotonic()
            if name not in self._copies:
                continue
            path, copy = self._path(name), self._copies[name]
            try:
                self.store.download(name, path)
            except FileNotFoundError:  # a trainer has removed it; a checkpoint without data is not whole
                del self._copies[name]
                for index in [index for index in self._copies if _is_data_of(name, index)]:
                    self._path(index).unlink(missing_ok=True)
                    del self._copies[index]
                continue
            status = path.stat()
            # Of an object that was written again since, the version is that of before: the next start reads it again.
            self._copies[name] = dataclasses.replace(copy, size=status.st_size, mtime_ns=status.st_mtime_ns)
        if names:
            self._write_copies()

    def _clear(self, kept: set[str]) -> None:
        """Removes all files but those `kept`, and what killed processes have left."""
        for path in sorted(self.folder.rglob("*"), reverse=True):
            if path.is_dir() and not path.is_symlink():
                with contextlib.suppress(OSError):  # it is not empty
                    path.rmdir()
            elif self._name(path) not in kept:
                path.unlink()

    def _is_equal(self, name: str, entry: Entry) -> bool:
        """Whether a file is as it was when it was equal to the object, which has not been written since either."""
        copy, path = self._copies.get(name), self._path(name)
        if copy is None or not entry.version or copy.version != entry.version or not path.is_file():
            return False
        status = path.stat()
        return (copy.size, copy.mtime_ns) == (status.st_size, status.st_mtime_ns) and copy.size == entry.size

    def _changed(self, here: dict[str, os.stat_result]) -> list[str]:
        """The files that are not, or no longer, equal to an object; none if only notes of this machine have changed."""
        copies = {name: (copy.size, copy.mtime_ns) for name, copy in self._copies.items()}
        found = [name for name, status in here.items() if copies.get(name) != (status.st_size, status.st_mtime_ns)]
        return [] if all(name in copies and _NOTES.fullmatch(name) for name in found) else found

    def _not_uploaded(self) -> list[str]:
        """The files that a process has written and not uploaded; others may have been downloaded and not noted."""
        known = self._copies
        return [name for name in self._changed(self._scan()) if name not in known or known[name].is_here]

    def _scan(self) -> dict[str, os.stat_result]:
        """The files of the working copy, without those whose names begin with a dot, such as locks."""
        found = {self._name(path): path.stat() for path in self.folder.rglob("*")}
        return {name: status for name, status in found.items() if stat.S_ISREG(status.st_mode) and _is_mirrored(name)}

    def _path(self, name: str) -> Path:
        return self.folder / name

    def _name(self, path: StrPath) -> str:
        return Path(path).relative_to(self.folder).as_posix()

    def _read_copies(self) -> dict[str, _Copy]:
        with contextlib.suppress(OSError, DataError, TypeError):
            found = read_json(self._home / MIRROR_FILE, FORMAT, {"url": str, "files": dict})
            return {name: _Copy(**copy) for name, copy in found["files"].items()}
        return {}

    def _write_copies(self) -> None:
        files = {name: dataclasses.asdict(copy) for name, copy in self._copies.items()}
        replace_file(self._home / MIRROR_FILE, json_text({"format": FORMAT, "url": self.store.url, "files": files}, 1))


def open_folder(path: str, wanted: Wanted = SMALL.fullmatch, *, keep: bool = False, follows: bool = False) -> str:
    """Returns a folder on this machine: that of a URL is its working copy, with the files that are `wanted`.

    Args:
        keep, follows: as of Mirror.

    Raises:
        UsageError: the path is that of a working copy, or the URL is of no known kind.
        StoreError: the store cannot be reached.
    """
    if not is_url(path):
        if os.path.exists(os.path.join(os.path.dirname(os.path.abspath(path)), MIRROR_FILE)) and not _holder(path):
            raise UsageError(f"{path} is this machine's working copy of a folder in a store. Give the store's URL.")
        return path
    url = path.rstrip("/")
    if follows and url in _open and not _open[url].follows:  # opened before, to read what a run needs at its start
        _open.pop(url).close()
    if url not in _open:
        mirror = Mirror(url, keep=keep, follows=follows)
        try:
            mirror.pull(wanted)
        except BaseException:
            mirror.close()
            raise
        _open[url] = mirror
        _log.info("%s: its working copy is %s.", url, mirror.folder)
    return str(_open[url].folder)


def fetch_url(path: str, wanted: Wanted = lambda name: True) -> str:
    """Returns a file or folder on this machine: that of a URL is downloaded, of a folder the files that are `wanted`.

    Raises:
        DataError: there is nothing at the URL; otherwise as `open_folder`.
    """
    if not is_url(path):
        return path
    open_folder(path, wanted)
    mirror = _open[path.rstrip("/")]
    mirror.download(wanted)
    if not mirror.names:
        raise DataError(f"{path} is not there: the store has no object of this name, and none in a folder of it.")
    return str(mirror.path)


def fetch(path: StrPath) -> None:
    """Downloads a file, folder or checkpoint of a working copy; does nothing about any other path."""
    if mirror := _holder(path):
        mirror.fetch(path)


def has(path: StrPath) -> bool:
    """Whether a file exists; one in a store need not have been downloaded."""
    mirror = _holder(path)
    return os.path.exists(path) if mirror is None else mirror.has(path)


def follow(path: StrPath) -> None:
    """Takes over what the store has now into the working copy of a worker; does nothing about any other path."""
    mirror = _holder(path)
    if mirror is not None and mirror.follows:
        mirror.pull(SMALL.fullmatch)


def store_of(path: StrPath) -> Store | None:
    """Returns the store of the working copy that holds `path`, if one does."""
    mirror = _holder(path)
    return None if mirror is None else mirror.store


def push(path: StrPath, *, at_the_end: bool = True) -> None:
    """Uploads what has changed in the working copy that holds `path`; does nothing about any other path.

    Args:
        at_the_end: an upload that fails is an error. Else it is logged as a warning, and the next one makes up for it.

    Raises:
        TrainingError: the lease is lost.
        StoreError: as said.
    """
    mirror = _holder(path)
    if mirror is None:
        return
    try:
        mirror.push()
    except StoreError as error:
        if at_the_end:
            raise
        _log.warning("warning: %s The training continues, and the next save tries again.", error)


@contextlib.contextmanager
def training(folder: StrPath, job: str = "") -> Iterator[None]:
    """Context of a trainer in a working copy: with the store's lease, all files at the start, and an upload at the end.

    What an earlier process has not uploaded is made up for at the start, too, before a job's workers read the store.
    A worker that is not the chief has at the end what the chief has uploaded.

    Args:
        job: as of Lease.

    Raises:
        TrainingError: another trainer has the lease, or took it.
    """
    mirror = _holder(folder)
    if mirror is None:
        yield
        return
    if mirror.follows:
        yield
        try:
            mirror.pull(SMALL.fullmatch)
        except StoreError as error:  # the training has ended well
            _log.warning("warning: %s The working copy lacks the end of the training.", error)
        return
    with Lease(mirror.store, job=job) as mirror.lease:
        try:
            mirror.pull()
            mirror.push()
            yield
            mirror.push()
        except BaseException as error:
            try:
                mirror.push()
            except T2TError as failed:  # the error that ended the training comes first
                if str(failed) != str(error):
                    _log.warning("warning: %s", failed)
            raise
        finally:
            mirror.lease = None


def name_urls(text: str) -> str:
    """Returns a text in which URLs stand in place of the paths of their working copies."""
    for url, mirror in _open.items():
        text = text.replace(str(mirror.path), url)
    return text


def _holder(path: StrPath) -> Mirror | None:
    """The open mirror that a path lies in."""
    whole = Path(os.path.abspath(path))
    return next((mirror for mirror in _open.values() if whole.is_relative_to(mirror.folder)), None)


def _is_mirrored(name: str) -> bool:
    return not any(part.startswith(".") for part in name.split("/"))


def _is_data_of(name: str, index: str) -> bool:
    """Whether a file is one of a checkpoint's data; `index` is the file that makes it count."""
    return index.endswith(".index") and name.startswith(f"{index.removesuffix('.index')}.data-")


@functools.cache
def _rank(name: str) -> int:
    return next((number for number, names in enumerate(_ORDER, start=1) if re.fullmatch(names, name)), 0)


def _lock(home: Path) -> IO[Any] | None:
    """Returns the lock of a folder, held until this process ends; None if another has it."""
    home.mkdir(parents=True, exist_ok=True)
    lock = open_own(home / "lock", lock=True)
    try:
        lock_or_warn(lock, home)
    except BlockingIOError:
        lock.close()
        return None
    return lock
