"""Meeting place: where the chief of a job leaves the key by which its workers know each other, while they meet.

That is the run's folder, which all of them see, or the store that they have working copies of. In a folder only this
user can read the key; in a store, everybody who may read the run's objects. A chief makes a key of its own, in place of
one that a killed chief has left.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from t2t_lite.distributed.cluster import Cluster
from t2t_lite.remote.lease import Watch
from t2t_lite.remote.mirror import store_of
from t2t_lite.remote.store import Store, StoreError

KEY_FILE = ".join_key"

_log = logging.getLogger("t2t_lite")


class Folder:
    """The run's folder.

    Attributes:
        key_name: where the key is, for messages.
        pause: seconds between two looks for the key.
    """

    pause = 0.2

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.key_name = str(folder / KEY_FILE)

    @contextlib.contextmanager
    def new_key(self) -> Iterator[str]:
        """Context in which a new key is there."""
        path, aside = self._folder / KEY_FILE, self._folder / f"{KEY_FILE}.{secrets.token_hex(4)}"
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
                file.write(key := secrets.token_hex(32))
            os.replace(aside, path)  # in place of one that a killed chief has left
            yield key
        finally:
            for each in (aside, path):
                each.unlink(missing_ok=True)

    def read_key(self) -> str:
        """Returns the key; OSError, or ValueError for what is none."""
        return Path(self.key_name).read_text("ascii")

    def check(self) -> None:
        """Raises T2TError if waiting for the chief is of no use."""


class InStore:
    """The store of a run; otherwise as Folder.

    Args:
        job: as of Lease.
    """

    pause = 1.0  # shorter than a chief holds its lease at least

    def __init__(self, store: Store, job: str) -> None:
        self._store, self._watch = store, Watch(store, job)
        self.key_name = f"{store.url}/{KEY_FILE}"

    @contextlib.contextmanager
    def new_key(self) -> Iterator[str]:
        """As of Folder; StoreError where it cannot be written."""
        key = secrets.token_hex(32)
        self._store.write(KEY_FILE, key.encode())
        try:
            yield key
        finally:
            try:
                self._store.remove(KEY_FILE)
            except StoreError as error:
                _log.warning("warning: %s The next job replaces this key, which is of no use any more.", error)

    def read_key(self) -> str:
        """As of Folder."""
        try:
            return self._store.read(KEY_FILE).decode("ascii")
        except FileNotFoundError:
            raise OSError("it is not there") from None
        except StoreError as error:
            raise OSError(str(error)) from error

    def check(self) -> None:
        """As of Folder; a store that is out of reach now may be in reach the next time."""
        with contextlib.suppress(StoreError):
            self._watch.check()


def meeting_place(folder: Path, cluster: Cluster) -> Folder | InStore:
    """Returns where the workers of a run meet; its `folder` may be a working copy."""
    store = store_of(folder)
    return Folder(folder) if store is None else InStore(store, cluster.job)
