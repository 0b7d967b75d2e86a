"""Atomic and durable file writes (write beside the target, force to disk, rename), file locks, checksums, JSON text."""

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from t2t_lite.errors import DamagedError, DataError, UsageError, check_format, check_tensorflow_path, reason

StrPath = str | os.PathLike[str]  # as typeshed calls it
# The types of a JSON object's entries by name; or a function that raises ValueError, KeyError, TypeError or
# AttributeError unless they are as they were written.
Check = Mapping[str, Any] | Callable[[dict[str, Any]], object]

_log = logging.getLogger("t2t_lite")
_NOT_OWN = "it is a link or no regular file; remove it"
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF)  # for folders, or at all


def users_folder(environment: Mapping[str, str]) -> Path:
    """The user's cache folder for t2t-lite; RuntimeError if the user has no home."""
    base = Path(environment.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "t2t-lite"


def lacks_room(error: Exception) -> bool:
    """Whether a write has failed because a disk or a quota is full; TensorFlow's errors say it in words alone."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno in _NO_ROOM
    return any(os.strerror(number) in str(error) for number in _NO_ROOM)


@contextlib.contextmanager
def name_in_errors(path: StrPath) -> Iterator[None]:
    """Context in which system errors name the file `path`; those of an open file name none."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or os.fspath(path)
        raise


def sync(path: Path) -> None:
    """Waits until a file, or the names in a folder, are on the disk."""
    with name_in_errors(path):
        handle = os.open(path, os.O_RDONLY)
        try:
            sync_open(handle, path)
        finally:
            os.close(handle)


def sync_open(handle: int, path: Path) -> None:
    """Waits until the open file `path` is on the disk; a warning says so, once, where the file system cannot do it."""
    try:
        with name_in_errors(path):
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


def odd_file(folder: StrPath) -> Path | None:
    """Returns a pipe or a device in a folder, also one that a link leads to: to read it might never end."""
    for path in sorted(Path(folder).iterdir()):
        if path.exists() and not path.is_file() and not path.is_dir():
            return path
    return None


def sha256_of(path: StrPath) -> str:
    """SHA-256 of a file's content, in hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def json_text(values: Any, indent: int | None) -> str:
    """JSON that people can read and that UTF-8 can hold: of a path that is not UTF-8, the bytes are escaped."""
    text = json.dumps(values, indent=indent, ensure_ascii=False)
    return text.encode("utf-8", "backslashreplace").decode("utf-8") + "\n"


def read_json(path: StrPath, number: int, check: Check, remedy: str = "") -> dict[str, Any]:
    """Reads a JSON object that t2t-lite wrote.

    Args:
        number: what its entry "format" must be.
        check: for all other entries.
        remedy: what to do about a damaged file, in a sentence.

    Raises:
        OSError: the file is missing or cannot be read.
        DamagedError: it is not what was written.
        DataError: another format number.
    """
    return parse_json(os.fspath(path), Path(path).read_bytes(), number, check, remedy)


def parse_json(name: str, text: str | bytes, number: int, check: Check, remedy: str = "") -> dict[str, Any]:
    """Parses what `read_json` reads; `name`: what it is called in errors."""
    try:
        values: dict[str, Any] = json.loads(text)
        check_format(name, values.get("format"), number, remedy)
        if callable(check):
            check(values)
        elif odd := [key for key, kind in check.items() if not isinstance(values[key], kind)]:
            raise TypeError(f"{odd[0]} is {values[odd[0]]!r:.80}")
    except DataError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedError(f"{name} is damaged ({reason(error)}). {remedy}".rstrip()) from error
    return values


def replace_file(path: Path, content: str | bytes | Sequence[bytes | memoryview]) -> None:
    """Replaces a file, whole or not at all; removes partial files that killed processes left beside it.

    Args:
        content: text or bytes; or bytes in parts, of which no copy is made.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    whole = content.encode("utf-8") if isinstance(content, str) else content
    parts = [whole] if isinstance(whole, bytes) else whole
    try:
        with name_in_errors(path), _open_locked(aside) as file:
            file.writelines(parts)
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
    with name_in_errors(path):
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
    lock = open_own(path, lock=True)
    try:
        yield lock
    finally:
        with contextlib.suppress(OSError):  # nothing of worth is in it, so this is no error of the work
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


def lock_or_warn(file: IO[Any], name: Path, *, wait: bool = False) -> bool:
    """Locks an open file until it is closed; returns False, with a warning, where the file system has no locks.

    Args:
        name: what the lock protects.

    Raises:
        BlockingIOError: another process holds the lock, and `wait` is False.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        _warn_unlocked(name)
        return False
    return True


@functools.cache  # once for each name: checkpoints are saved again and again
def _warn_unlocked(name: Path) -> None:
    _log.warning("%s cannot be locked; see to it that no other process writes there.", name)


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
        # Without locks, what is left may belong to a process that still writes, unless it has this one's number.
        left = asides(folder) if lock_or_warn(lock, folder, wait=True) else [staging_dir(folder)]
        for stale in left:
            shutil.rmtree(stale, ignore_errors=True)
        yield


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
