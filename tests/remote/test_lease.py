"""The lease of a folder in a store: one process has it, a dead one's is taken, and nobody's clock decides."""

import errno
import json
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from t2t_lite.errors import TrainingError
from t2t_lite.remote import lease
from t2t_lite.remote.lease import LEASE, Lease
from t2t_lite.remote.store import Store, StoreError

Machine = Callable[[str], None]
QUICK: dict[str, Any] = {"beat": 0.06, "pause": 0.0}
# Of a process that cannot be asked whether it lives; its clock is years off.
FAR = {"owner": "x", "host": "far", "process": 1, "machine": "another", "started": "1", "beat": 1}


def _owner(store: Store) -> object:
    return json.loads(store.read(LEASE))["owner"]


def _beat(held: Lease) -> int:
    with held._writing:
        return json.loads(held._store.read(LEASE))["beat"]


def test_one_has_it_and_it_is_removed_at_the_end(url: str) -> None:
    store = Store(url)
    with Lease(store, **QUICK):
        with pytest.raises(TrainingError) as error, Lease(store, **QUICK):
            pass
        assert f"Another trainer writes to {store.url}: process " in str(error.value)
        assert f"remove {store.url}/{LEASE} by hand" in str(error.value)
    assert store.list() == {}
    with pytest.raises(ValueError, match="mine"), Lease(store, **QUICK):
        raise ValueError("mine")
    assert store.list() == {}


def test_a_lease_that_does_not_change_is_taken(url: str) -> None:
    store = Store(url)
    store.write(LEASE, json.dumps(FAR).encode())
    start = time.monotonic()
    with Lease(store, **QUICK) as held:
        assert time.monotonic() - start >= lease.MISSED * QUICK["beat"]
        held.check()


def test_a_lease_that_changes_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(url)
    store.write(LEASE, json.dumps(FAR).encode())
    sleep = time.sleep

    def beat_meanwhile(seconds: float) -> None:
        store.write(LEASE, json.dumps({**FAR, "beat": 2}).encode())
        sleep(seconds)

    monkeypatch.setattr("time.sleep", beat_meanwhile)
    with pytest.raises(TrainingError, match="process 1 on far"), Lease(store, **QUICK):
        pass
    assert _owner(store) == "x"


def test_a_dead_process_of_this_machine_is_known_at_once(url: str) -> None:
    store = Store(url)
    dead = {**FAR, **lease._this_process(), "started": "1"}  # another process had its number
    store.write(LEASE, json.dumps(dead).encode())
    with Lease(store, beat=1000, pause=0):
        assert _owner(store) != "x"


def test_a_hidden_process_of_this_machine_is_alive(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(url)
    store.write(LEASE, json.dumps({**FAR, **lease._this_process()}).encode())
    monkeypatch.setattr(lease, "_started", lambda process: None)
    with pytest.raises(TrainingError, match="Another trainer"), Lease(store, **QUICK):
        pass
    store.write(LEASE, json.dumps({**FAR, **lease._this_process(), "process": 2**22 + 1}).encode())  # above the most
    with Lease(store, **QUICK):
        pass


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff"])
def test_a_damaged_lease_is_one_of_an_unknown_process(url: str, content: bytes) -> None:
    store = Store(url)
    store.write(LEASE, content)
    with Lease(store, **QUICK) as held:
        held.check()


def test_it_beats_and_stops_when_another_has_it(url: str) -> None:
    store = Store(url)
    with Lease(store, **QUICK) as held:
        end = time.monotonic() + 20
        while _beat(held) < 3 and time.monotonic() < end:
            time.sleep(0.01)
        assert _beat(held) >= 3
        with held._writing:  # between two beats
            store.write(LEASE, json.dumps(FAR).encode())
        time.sleep(4 * QUICK["beat"])
        with pytest.raises(TrainingError, match="lost its lease of .*: process 1 on far has taken it"):
            held.check()
    assert _owner(store) == "x"  # the other's stays


@pytest.mark.parametrize("failure", [StoreError("out of reach"), OSError(errno.ENOSPC, "No space left on device")])
def test_a_beat_that_fails_is_followed_by_others(url: str, monkeypatch: pytest.MonkeyPatch, failure: Exception) -> None:
    store, write, failed = Store(url), Store.write, threading.Event()

    def fail_once(self: Store, name: str, data: bytes, *, new: bool = False) -> None:
        if not new and not failed.is_set():
            failed.set()
            raise failure
        write(self, name, data, new=new)

    monkeypatch.setattr(Store, "write", fail_once)
    with Lease(store, **QUICK) as held:
        end = time.monotonic() + 20
        while _beat(held) < 3 and time.monotonic() < end:
            time.sleep(0.01)
        assert failed.is_set()
        assert _beat(held) >= 3


def test_of_two_that_take_one_at_once_the_last_writer_has_it(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(url)
    sleep = time.sleep

    def another_writes(seconds: float) -> None:
        store.write(LEASE, json.dumps(FAR).encode())
        sleep(seconds)

    monkeypatch.setattr("time.sleep", another_writes)
    with pytest.raises(TrainingError, match="process 1 on far has taken it"), Lease(store, **QUICK):
        pass


def test_one_that_is_created_first_elsewhere_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(url)
    read = Lease._read
    seen: list[bytes | None] = []

    def read_before_it_came(self: Lease) -> bytes | None:
        seen.append(None if not seen else read(self))
        return seen[-1]

    store.write(LEASE, json.dumps(FAR).encode())
    monkeypatch.setattr(Lease, "_read", read_before_it_came)
    with pytest.raises(TrainingError, match="Another trainer writes to .*: process 1 on far"), Lease(store, **QUICK):
        pass
