"""Store: the objects under a URL, such as s3://bucket/runs/a, read and written whole over fsspec.

Nothing is expected of a store but that an object is there as soon as it is written: objects are never renamed, extended
or locked. The names of a store's objects are relative to its URL; where the URL is that of one object, it is the only
one, by the last part of the URL.
"""

import contextlib
import logging
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from t2t_lite.errors import DataError, T2TError, UsageError, did_you_mean
from t2t_lite.files import lacks_room

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://.")  # S3:// is refused, with a hint, and is no folder called "S3:"
# Kinds of stores without folders, in which an object's parents are not made.
_FLAT = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "oss", "oci"}
_WAITS = (1, 4, 15, 40)  # seconds between tries to read a part
_VERSIONS = ("ETag", "etag", "md5Hash", "generation", "mtime", "LastModified", "last_modified", "created")

_log = logging.getLogger("t2t_lite")


class StoreError(DataError):
    """A store that cannot be reached, or refuses what was asked of it."""


class Entry(NamedTuple):
    """An object: its size in bytes, and what changes when it is written again."""

    size: int
    version: str


def is_url(path: object) -> bool:
    """Whether a path is that of a store, such as s3://bucket/runs/a or gs://bucket/a.txt."""
    return isinstance(path, str) and _URL.match(path) is not None


def make_absolute(path: str) -> str:
    """Returns an absolute path, with ~ expanded; a URL as it is."""
    return path if is_url(path) else os.path.abspath(os.path.expanduser(path))


class Store:
    """The objects under a URL.

    Attributes:
        url: the URL, without a slash at its end.
        name: its last part.
        is_object: whether it is that of one object.

    Raises:
        UsageError: no package for this kind of URL is installed, or there is no such kind.
        StoreError: the store cannot be reached; so do all methods. Reading raises FileNotFoundError for an object that
            is not there.
    """

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._fs, root = _open(self.url)
        self._root = str(root).rstrip("/")
        self.name = self._root.rpartition("/")[2]
        with self._explain("looked at"):
            self.is_object = self._fs.isfile(self._root)

    def list(self) -> dict[str, Entry]:
        """Returns all objects by name; DataError where a name leads out of the folder."""
        with self._explain("listed"):
            self._fs.invalidate_cache()  # what fsspec remembers of earlier listings
            found = self._fs.find(self._root, detail=True)
        entries = {self._relative(path): _entry(info or self._fs.info(path)) for path, info in found.items()}
        for name in entries:
            if not name.isprintable() or not {"", ".", ".."}.isdisjoint(name.split("/")):
                raise DataError(f"{self.url} holds an object called {name!r}, which cannot be a file. Remove it.")
        return entries

    def download(self, name: str, path: Path) -> None:
        """Copies an object to a file, whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            with self._explain("read", name, FileNotFoundError):
                self._fs.get_file(self._path(name), str(aside))
            os.replace(aside, path)
        finally:
            aside.unlink(missing_ok=True)

    def upload(self, path: Path, name: str) -> None:
        """Copies a file to an object."""
        with self._explain("written", name):
            self._make_parent(name)
            self._fs.put_file(str(path), self._path(name))

    def read(self, name: str) -> bytes:
        """Returns an object's content."""
        with self._explain("read", name, FileNotFoundError):
            return bytes(self._fs.cat_file(self._path(name)))

    def read_part(self, name: str, start: int, stop: int) -> bytes:
        """Returns the bytes `start` to `stop` - 1 of an object; tries again, for a minute, if the store fails."""
        waits = iter(_WAITS)
        while True:
            try:
                with self._explain("read", name):
                    # By keyword: the second argument of s3fs is a version, not the start.
                    return bytes(self._fs.cat_file(self._path(name), start=start, end=stop))
            except StoreError as error:
                wait = next(waits, None)
                if wait is None or isinstance(error.__cause__, FileNotFoundError):
                    raise
                _log.warning("%s It is tried again in %d s.", error, wait)
                time.sleep(wait)

    def write(self, name: str, data: bytes, *, new: bool = False) -> None:
        """Writes an object; FileExistsError if it must be `new` and is there, as far as the store can tell."""
        with self._explain("written", name, FileExistsError):
            self._make_parent(name)
            self._fs.pipe_file(self._path(name), data, **({"mode": "create"} if new else {}))

    def remove(self, name: str) -> None:
        """Removes an object, if it is there."""
        with self._explain("removed", name), contextlib.suppress(FileNotFoundError):
            self._fs.rm_file(self._path(name))

    def _path(self, name: str) -> str:
        return self._root if self.is_object else f"{self._root}/{name}"

    def _relative(self, path: str) -> str:
        return self.name if self.is_object else str(path).removeprefix(self._root).removeprefix("/")

    def _make_parent(self, name: str) -> None:
        """Makes the folder of an object, where the store has folders."""
        if self.url.partition("://")[0] not in _FLAT:  # there it might make a bucket
            self._fs.makedirs(self._path(name).rpartition("/")[0], exist_ok=True)

    @contextlib.contextmanager
    def _explain(self, what: str, name: str = "", *expected: type[OSError]) -> Iterator[None]:
        """Context in which an error of the store, of any class but those `expected`, is raised as StoreError."""
        try:
            yield
        except T2TError:
            raise
        except Exception as error:
            if isinstance(error, expected) and not _lacks_bucket(error):
                raise
            if lacks_room(error) and isinstance(error, OSError):  # of this machine's disk
                raise
            reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
            shown = f"{self.url}/{name}" if name else self.url
            advice = "Credentials and addresses are taken from where the store's own programs take them"
            if isinstance(error, FileNotFoundError):
                reason = f"it is not there ({reason})"
                advice = "Look whether the URL is right, or somebody has removed it; buckets are never created"
            raise StoreError(f"{shown} cannot be {what}: {reason}. {advice}; see docs/cloud.md.") from error


def _open(url: str) -> tuple[Any, str]:
    """Returns fsspec's file system for a URL, and the path in it."""
    try:
        import fsspec
    except ImportError:
        raise UsageError(f"{url}: paths of a store need the package fsspec: pip install 't2t-lite[cloud]'.") from None
    try:
        fs, path = fsspec.core.url_to_fs(url)
    except ImportError as error:
        raise UsageError(f"{url}: the package for this kind of store is missing: {error}.") from None
    except ValueError as error:
        kind = url.partition("://")[0]
        near = did_you_mean(kind.lower(), fsspec.available_protocols())
        raise UsageError(f"{url}: fsspec cannot open {kind}:// ({error}).{near}") from None
    return fs, path


def _lacks_bucket(error: Exception) -> bool:
    """Whether an object is not there because its bucket is not; S3 tells."""
    response = getattr(error.__cause__, "response", None)  # of botocore's ClientError
    return isinstance(response, dict) and response.get("Error", {}).get("Code") == "NoSuchBucket"


def _entry(info: dict[str, Any]) -> Entry:
    version = next((str(info[name]) for name in _VERSIONS if info.get(name) is not None), "")
    return Entry(int(info.get("size") or 0), version)
