"""Lease: which process may write to a folder of a store, which has no locks.

The object .trainer.lease names its owner, who writes it again every BEAT seconds with another number. A process that
finds a lease watches it, by its own clock: the owner of one that changes is alive, and that of one that does not change
for MISSED beats is dead, and its lease is taken. Nothing depends on two machines' clocks. An owner on this machine is
dead if its process is.

An owner that has been asleep or cut off for that long has lost its lease to another, and sees so before it writes: it
reads the lease before it uploads what makes a checkpoint count.
"""

import contextlib
import json
import logging
import os
import secrets
import socket
import threading
import time
from pathlib import Path
from typing import Any

from t2t_lite.errors import TrainingError
from t2t_lite.remote.store import Store, StoreError

LEASE = ".trainer.lease"
BEAT, MISSED, PAUSE = 30.0, 5, 2.0  # seconds; beats; seconds in which another may write the same object at once

_log = logging.getLogger("t2t_lite")


class Lease:
    """The lease of a folder, held while in the context.

    Args:
        store: the folder.
        beat: seconds between two beats.
        pause: seconds between writing and reading a new lease.
        job: names the workers that train together, of which the owner is one; "": it is alone.

    Raises:
        TrainingError: another process holds it; the message names it. Also from `check`, where it was lost since.
        StoreError: the store cannot be read or written.
    """

    def __init__(self, store: Store, beat: float = BEAT, pause: float = PAUSE, job: str = "") -> None:
        self._store, self._beat, self._pause, self._job = store, beat, pause, job
        self._owner, self._beats = secrets.token_hex(16), 0
        self._ended = threading.Event()
        self._writing = threading.Lock()
        self._thread = threading.Thread(target=self._keep, daemon=True, name="t2t-lite-lease")

    def __enter__(self) -> "Lease":
        found = self._read()
        if found is not None:
            self._wait_for_death(found)
        try:
            self._write(new=found is None)
        except FileExistsError:
            raise _refusal(self._store, self._read() or b"", self._beat) from None
        time.sleep(self._pause)  # of two that saw a dead one's lease, or where the store cannot refuse, the last has it
        self.check()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        with self._writing, contextlib.suppress(StoreError):
            if _facts(self._read() or b"").get("owner") == self._owner:
                self._store.remove(LEASE)

    def check(self) -> None:
        """Raises TrainingError unless this process holds the lease."""
        with self._writing:  # on a disk, an object that is being written is not whole
            self._check()

    def _check(self) -> None:
        found = self._read()
        if found is None or _facts(found).get("owner") != self._owner:
            by = f"{_describe(found)} has taken it" if found else "somebody has removed it"
            raise TrainingError(
                f"This process has lost its lease of {self._store.url}: {by}, as after {MISSED * self._beat:.0f} "
                "seconds without a sign of life. Nothing was written since. Let the other one train, or start again "
                "when it has ended."
            )

    def _keep(self) -> None:
        """Writes a beat again and again; leaves a lease that another has taken to `check`."""
        while not self._ended.wait(self._beat):
            # The next beat may come through. OSError: the disk is full, where the store is one that is mounted.
            with self._writing, contextlib.suppress(StoreError, TrainingError, OSError):
                if not self._ended.is_set():
                    self._check()
                    self._write()

    def _write(self, *, new: bool = False) -> None:
        self._beats += 1
        facts = {"owner": self._owner, "job": self._job, **_this_process(), "beat": self._beats}
        self._store.write(LEASE, json.dumps(facts).encode(), new=new)

    def _read(self) -> bytes | None:
        return _read(self._store)

    def _wait_for_death(self, found: bytes) -> None:
        """Returns when the owner of a lease counts as dead; TrainingError if it is alive."""
        facts = _facts(found)
        if facts.get("machine") == _machine():
            if not _is_dead(facts):
                raise _refusal(self._store, found, self._beat)
            return
        wait = MISSED * self._beat
        _log.info(
            "%s writes to %s, or was killed: watching its lease for up to %.0f seconds.",
            _describe(found),
            self._store.url,
            wait,
        )
        end = time.monotonic() + wait
        while time.monotonic() < end:
            time.sleep(min(self._beat / 3, max(end - time.monotonic(), 0)))
            now = self._read()
            if now is None:
                return
            if now != found:
                raise _refusal(self._store, now, self._beat)


class Watch:
    """What a worker of a job, whose chief takes the lease, sees of it while it waits for the chief.

    Args:
        store: the folder.
        job: as of Lease.
    """

    def __init__(self, store: Store, job: str) -> None:
        self._store, self._job = store, job
        self._first: bytes | None = None
        self._looked = self._had_it = False

    def check(self) -> None:
        """Raises TrainingError if another job's trainer holds the lease and is alive, or the chief no longer holds it.

        A lease that was there at the first look may be that of a dead one, until it changes.
        """
        found = _read(self._store)
        facts = _facts(found or b"")
        if found is not None and not facts:  # on a disk, an object that is being written is not whole
            return
        if not self._looked:
            self._first, self._looked = found, True
        if facts.get("machine") == _machine():
            alive = not _is_dead(facts)
        else:
            alive = bool(facts) and (self._had_it or found != self._first)
        ours = facts.get("job") == self._job
        if alive and found and not ours:
            raise _refusal(self._store, found, BEAT)
        if self._had_it and not (alive and ours):
            raise TrainingError(
                f"The chief, which wrote to {self._store.url}, has ended before the workers met, so this one ends, "
                "too. The chief's own messages say why. Start all workers again with the same commands."
            )
        self._had_it = alive and ours


def _read(store: Store) -> bytes | None:
    try:
        return store.read(LEASE)
    except FileNotFoundError:
        return None


def _refusal(store: Store, found: bytes, beat: float) -> TrainingError:
    return TrainingError(
        f"Another trainer writes to {store.url}: {_describe(found)}. Let it end, or stop it, or give another "
        f"--output_dir. If it is surely dead, it counts as dead {MISSED * beat:.0f} seconds after its last sign of "
        f"life, and this command then starts; or remove {store.url}/{LEASE} by hand."
    )


def _facts(lease: bytes) -> dict[str, Any]:
    """What a lease says; nothing where it is damaged."""
    with contextlib.suppress(ValueError):
        facts = json.loads(lease)
        if isinstance(facts, dict):
            return facts
    return {}


def _describe(lease: bytes) -> str:
    facts = _facts(lease)
    return f"process {facts.get('process', 'unknown')} on {facts.get('host', 'an unknown host')!s:.80}"


def _this_process() -> dict[str, object]:
    number = os.getpid()
    return {"host": socket.gethostname(), "process": number, "machine": _machine(), "started": _started(number)}


def _machine() -> str:
    """What identifies this machine, since it started, and the processes that are seen from here; else a random text."""
    with contextlib.suppress(OSError):
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {os.readlink('/proc/self/ns/pid')}"
    return secrets.token_hex(16)


def _is_dead(facts: dict[str, Any]) -> bool:
    """Whether the process of this machine that a lease names has ended; it may be another user's, and hidden."""
    started = _started(facts.get("process"))
    if started is not None:
        return started != facts.get("started")  # another process may have its number
    try:
        os.kill(int(str(facts.get("process"))), 0)
    except ProcessLookupError:
        return True
    except (OSError, ValueError, OverflowError):
        return False
    return False


def _started(process: object) -> str | None:
    """When a process of this machine started, in ticks since the machine did; None where there is none."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        return Path(f"/proc/{int(str(process))}/stat").read_text().rpartition(")")[2].split()[19]
    return None
