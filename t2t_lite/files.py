"""Atomic and durable file writes (write beside the target, force to disk, rename), file locks, checksums, JSON text."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import glob
import hashlib
import json
import logging
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from t2t_lite.errors import DamagedError, DataError, UsageError, check_format, check_tensorflow_path

_log = logging.getLogger("t2t_lite")
# Names of temporary folders, and in each: of what is written, of the file whose lock says "alive", and of it before.
_ASIDE, _CONTENT, _LOCK, _UNLOCKED = ".partial.", "version", "lock", "unlocked"
_NOT_OWN = "it is a link or no regular file; remove it"
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF)  # for folders, or at all


def lacks_room(error: Exception) -> bool:
    """Whether a write has failed because a disk or a quota is full; TensorFlow's errors say it in words alone."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno in _NO_ROOM
    return any(os.strerror(number) in str(error) for number in _NO_ROOM)


@contextlib.contextmanager
def named(path: str | os.PathLike[str]) -> Iterator[None]:
    """Context in which system errors name the file `path`; those of an open file name none."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or os.fspath(path)
        raise


def sync(path: Path) -> None:
    """Waits until a file, or the names in a folder, are on the disk."""
    with named(path):
        handle = os.open(path, os.O_RDONLY)
        try:
            sync_open(handle, path)
        finally:
            os.close(handle)


def sync_open(handle: int, path: Path) -> None:
    """Waits until the open file `path` is on the disk; a warning says so, once, where the file system cannot do it."""
    try:
        with named(path):
            os.fsync(handle)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
        _warn_unsynced(str(error.strerror))


@functools.cache  # once: each save of a run would say it again
def _warn_unsynced(reason: str) -> None:
    _log.warning(
        "This file system does not write at once when asked to (fsync: %s). After a power failure, files that were "
        "written last may be lost or damaged there.",
        reason,
    )


def odd_file(folder: str | os.PathLike[str]) -> Path | None:
    """Returns a pipe or a device in a folder, also one that a link leads to: to read it might never end."""
    for path in sorted(Path(folder).iterdir()):
        if path.exists() and not path.is_file() and not path.is_dir():
            return path
    return None


def sha256_of(path: str | os.PathLike[str]) -> str:
    """SHA-256 of a file's content, in hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def json_text(values: Any, indent: int) -> str:
    """JSON that people can read and that UTF-8 can hold: of a path that is not UTF-8, the bytes are escaped."""
    text = json.dumps(values, indent=indent, ensure_ascii=False)
    return text.encode("utf-8", "backslashreplace").decode("utf-8") + "\n"


def read_json(
    path: str | os.PathLike[str],
    number: int,
    check: Callable[[dict[str, Any]], object] | Mapping[str, Any],
    remedy: str = "",
) -> dict[str, Any]:
    """Reads a JSON object that t2t-lite wrote.

    Args:
        number: the format number that its entry "format" must have.
        check: the types of entries that must be there; or a function that raises ValueError, KeyError, TypeError or
            AttributeError unless all entries are as they are read.
        remedy: what to do about a damaged file, in a sentence.

    Raises:
        OSError: the file is missing or cannot be read.
        DamagedError: it holds no JSON object, or `check` failed.
        DataError: another format number.
    """
    try:
        values = json.loads(Path(path).read_text(encoding="utf-8"))
        if not isinstance(values, dict):
            raise TypeError("it holds no JSON object")
        check_format(path, values.get("format"), number, remedy)
        if callable(check):
            check(values)
        else:
            for name, kind in check.items():
                if not isinstance(values[name], kind):
                    raise TypeError(f"{name} cannot be {values[name]!r:.80}")
    except DataError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        why = f"it has no entry {error}" if isinstance(error, KeyError) else error
        raise DamagedError(f"{os.fspath(path)} is damaged ({why}). {remedy}".rstrip()) from error
    return values


def replace_file(path: Path, content: str | bytes) -> None:
    """Replaces a file, whole or not at all; removes partial files that killed processes left beside it."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    data = content.encode("utf-8") if isinstance(content, str) else content
    try:
        with named(path), _open_locked(aside) as file:
            file.write(data)
            file.flush()
            sync_open(file.fileno(), path)
            os.replace(aside, path)
    except OSError:
        with contextlib.suppress(OSError):  # where it cannot be removed either, the next write does it
            aside.unlink()
        raise
    sync(path.parent)
    _remove_stale(path)


def open_own(path: Path, *, lock: bool = False) -> IO[bytes]:
    """Opens a file for reading and writing, made if need be; raises OSError where `path` leads to another file.

    Names of temporary files and locks can be foreseen, and whoever can write to the folder could put a link there.

    Args:
        lock: nothing of worth is written to it, so it may have several names, as in a copy that `cp -al` has made.
    """
    with named(path):
        if path.is_symlink():
            raise OSError(errno.ELOOP, _NOT_OWN)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or (status.st_nlink > 1 and not lock):
            os.close(handle)
            raise OSError(errno.ELOOP, _NOT_OWN)
        return open(handle, "r+b")


@contextlib.contextmanager
def open_lock(path: Path) -> Iterator[IO[bytes]]:
    """Context with an open file to lock, as `open_own`."""
    with _closing(open_own(path, lock=True)) as file:
        yield file


@contextlib.contextmanager
def _closing(lock: IO[bytes]) -> Iterator[IO[bytes]]:
    """Context that closes a lock's file. An error then is none of the work that is done: nothing of worth is in it."""
    try:
        yield lock
    finally:
        with contextlib.suppress(OSError):
            lock.close()


def _open_locked(path: Path) -> IO[bytes]:
    """Opens a file and locks it while it is open; the lock tells other processes that this one is alive."""
    while True:
        file = open_own(path)
        _lock(file, wait=True)
        file.truncate()  # of a killed process with this one's number
        if os.fstat(file.fileno()).st_nlink:
            return file
        file.close()  # before the lock, another process removed it as a dead process's file


def _lock(file: IO[bytes], *, wait: bool) -> bool:
    """Returns whether the file is locked now; False: another process holds the lock, or the file system has none."""
    with contextlib.suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def lock_or_warn(file: IO[Any], name: Path, others: str) -> None:
    """Locks an open file until it is closed, without waiting; a warning says so where there are no locks.

    Args:
        name: what the lock protects, for the warning.
        others: the processes that it keeps away, such as "trainer".

    Raises:
        BlockingIOError: another process holds the lock.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError as error:  # some network file systems have no locks
        _log.warning("%s cannot be locked (%s); see to it that no other %s writes there.", name, error.strerror, others)


def _remove_stale(path: Path) -> None:
    """Removes files that dead processes left beside `path`; a process that still writes holds a lock."""
    for stale in path.parent.glob(f".{glob.escape(path.name)}.*"):
        if not stale.suffix[1:].isdecimal():
            continue
        with contextlib.suppress(OSError), open(stale, "rb") as file:
            # Its writer may have renamed it meanwhile and begun another file of this name, which is locked.
            if _lock(file, wait=False) and os.path.samestat(os.fstat(file.fileno()), os.stat(stale)):
                stale.unlink()


def staging_dir(folder: Path) -> Path:
    """Returns the staging folder in which this process writes what will become `folder`; see `file_lock`."""
    return folder.with_name(f".{folder.name}.partial-{os.getpid()}")


@contextlib.contextmanager
def file_lock(folder: Path) -> Iterator[None]:
    """Lock for writing `folder`: waits for other processes, then removes what killed ones have left beside it."""
    with open_lock(folder.with_name(f".{folder.name}.lock")) as lock:
        if _lock(lock, wait=True):  # the system releases it when the process ends, however it ends
            for stale in asides(folder):
                shutil.rmtree(stale, ignore_errors=True)
        else:  # some network file systems have no locks; what is left may belong to a process that still writes
            _warn_unlocked(folder)
            shutil.rmtree(staging_dir(folder), ignore_errors=True)  # of a killed process with this one's number
        yield


@contextlib.contextmanager
def temporary_folder(base: Path) -> Iterator[Path]:
    """Context with a new folder below `base`, removed at the end; first removes those of killed processes.

    A process that still writes holds the lock in its folder. Folders with files and without a lock stay: their
    processes may be alive.
    """
    for stale in base.glob(f"{_ASIDE}*"):
        with contextlib.suppress(OSError), open(stale / _LOCK, "r+b") as its:
            if _lock(its, wait=False):
                _remove_temporary(stale)
        with contextlib.suppress(OSError):
            stale.rmdir()  # if empty: its process could not remove it, or was killed before it wrote the lock
    aside, lock = _new_temporary(base)
    try:
        with _closing(lock):
            folder = aside / _CONTENT  # one below, because only the owner may read a temporary folder
            folder.mkdir()
            if _lock(lock, wait=True):
                os.rename(lock.name, aside / _LOCK)  # so that no other process sees it unlocked
            yield folder
    finally:
        _remove_temporary(aside)


def _new_temporary(base: Path) -> tuple[Path, IO[bytes]]:
    """Makes a temporary folder; returns it, and the open file in it that becomes its lock."""
    while True:
        aside = Path(tempfile.mkdtemp(prefix=_ASIDE, dir=base))
        try:
            return aside, open(aside / _UNLOCKED, "wb")
        except FileNotFoundError:
            continue  # another process has taken it for an empty one that was left
        except OSError:
            _remove_temporary(aside)
            raise


def _remove_temporary(aside: Path) -> None:
    """Removes a temporary folder, its lock last: what cannot be removed now is removed by the next process."""
    shutil.rmtree(aside / _CONTENT, ignore_errors=True)
    with contextlib.suppress(OSError):
        if not (aside / _CONTENT).exists():
            for name in (_UNLOCKED, _LOCK):
                (aside / name).unlink(missing_ok=True)
            aside.rmdir()


@functools.cache  # once for each folder: checkpoints are saved again and again
def _warn_unlocked(folder: Path) -> None:
    _log.warning("%s cannot be locked; see to it that no other process writes there.", folder)


def asides(folder: Path) -> list[Path]:
    """Staging folders beside `folder` that are in use or were left by killed processes."""
    return sorted(folder.parent.glob(f".{folder.name}.partial-*"))


def check_folder(flag: str, folder: str) -> None:
    """Raises UsageError if a folder can neither be written to nor made; makes nothing."""
    path = Path(folder).absolute()
    there = next(p for p in (path, *path.parents) if p.exists() or p.is_symlink())
    if not there.is_dir():
        raise UsageError(f"--{flag}={folder}: {there} is not a folder.")
    if not os.access(there, os.W_OK | os.X_OK):
        raise UsageError(f"--{flag}={folder}: {there} cannot be written to.")


def check_tensorflow_folder(flag: str, folder: str) -> None:
    """Raises UsageError as `check_folder` does, or if TensorFlow, which writes there, cannot take the folder's name."""
    check_tensorflow_path(f"--{flag}={folder}", folder)
    check_folder(flag, folder)
