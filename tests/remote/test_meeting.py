"""Workers whose run is in a store, in this process: they find their chief there, by its key and its lease."""

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from t2t_lite.distributed.cluster import Cluster
from t2t_lite.distributed.meeting_place import KEY_FILE, InStore
from t2t_lite.distributed.rendezvous import find_chief, join
from t2t_lite.errors import T2TError, TrainingError
from t2t_lite.remote import lease
from t2t_lite.remote.lease import LEASE, Watch
from t2t_lite.remote.mirror import open_folder
from t2t_lite.remote.store import Store, StoreError
from tests.faults.workers import free_addresses

Machine = Callable[[str], None]
ENDS = 60  # seconds, a generous limit for what should take two
FAR = {"owner": "x", "job": "ours", "host": "far", "process": 1, "machine": "another", "started": "1", "beat": 1}


class _Process(threading.Thread):
    """A part of a worker's start, in this process."""

    def __init__(self, function: Callable[..., str | None], *given: Any) -> None:
        super().__init__()
        self._call, self.result, self.error = (function, given), None, ""
        self.start()

    def run(self) -> None:
        function, given = self._call
        try:
            self.result = function(*given)
        except T2TError as error:
            self.error = f"{error.exit_status}: {error}"

    def end(self) -> tuple[str | None, str]:
        self.join()
        return self.result, self.error


@contextlib.contextmanager
def _server(address: str) -> Iterator[None]:
    """What TensorFlow does when a worker has joined: it takes the port."""
    with socket.create_server(("127.0.0.1", int(address.split(":")[1]))):
        yield


@pytest.mark.commit("memory")
def test_a_worker_finds_its_chief_and_then_meets_it(url: str, machine: Machine) -> None:
    store, (addresses, folder) = Store(url), (free_addresses(2), Path(open_folder(url)))
    store.write(KEY_FILE, b"left by a chief that was killed")
    finding = _Process(find_chief, Cluster(tuple(addresses), 1), store, ENDS)
    finding.join(0.5)
    assert finding.is_alive()  # the key alone says nothing
    chief = _Process(join, Cluster(tuple(addresses), 0), 1, folder, ENDS)
    key, error = finding.end()
    assert error == ""
    assert key
    assert key.encode() == store.read(KEY_FILE) != b"left by a chief that was killed"
    assert chief.is_alive()  # the worker copies the run meanwhile
    worker = _Process(join, Cluster(tuple(addresses), 1), 1, folder, ENDS, key)
    assert worker.end() == (None, "")
    with _server(addresses[1]):
        assert chief.end() == (None, "")
    assert store.list() == {}


@pytest.mark.commit("memory")
def test_the_chief_says_who_copies(url: str, machine: Machine) -> None:
    addresses, folder = free_addresses(2), Path(open_folder(url))
    chief = _Process(join, Cluster(tuple(addresses), 0), 1, folder, 2)
    assert find_chief(Cluster(tuple(addresses), 1), Store(url), ENDS)
    assert chief.end()[1].startswith(f"1: Worker 1 at {addresses[1]} (it copies the run) did not come within 2 seconds")


@pytest.mark.commit("memory")
def test_a_worker_that_has_copied_the_run_of_an_earlier_chief_ends(url: str, machine: Machine) -> None:
    addresses, folder = free_addresses(2), Path(open_folder(url))
    first = _Process(join, Cluster(tuple(addresses), 0), 1, folder, 1)
    key = find_chief(Cluster(tuple(addresses), 1), Store(url), ENDS)
    first.join()
    again = _Process(join, Cluster(tuple(addresses), 0), 1, folder, 3)
    _, error = _Process(join, Cluster(tuple(addresses), 1), 1, folder, ENDS, key).end()
    assert error.startswith("1: The chief was started again after this worker had copied the run, so this worker ends.")
    again.join()


@pytest.mark.commit("memory")
def test_a_worker_of_another_cluster_is_told_before_it_copies(url: str, machine: Machine) -> None:
    addresses, folder = free_addresses(3), Path(open_folder(url))
    chief = _Process(join, Cluster(tuple(addresses), 0), 1, folder, 2)
    _, error = _Process(find_chief, Cluster(tuple(addresses[:2]), 1), Store(url), ENDS).end()
    assert error.startswith("2: The workers do not agree on the cluster. TF_CONFIG of worker 1 has ")
    chief.join()


def test_a_key_that_cannot_be_removed_is_reported(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: Store, name: str) -> None:
        raise StoreError("out of reach.")

    monkeypatch.setattr(Store, "remove", fail)
    with InStore(Store(url), "ours").new_key():
        pass
    assert "out of reach. The next job replaces this key" in caplog.text


def _put(store: Store, **facts: object) -> None:
    store.write(LEASE, json.dumps({**FAR, **facts}).encode())


def test_a_lease_of_another_job_ends_a_worker_when_it_beats(url: str) -> None:
    store = Store(url)
    watch = Watch(store, "ours")
    _put(store, job="another")
    for _ in range(2):
        watch.check()
    _put(store, job="another", beat=2)
    with pytest.raises(TrainingError, match="Another trainer writes to .* process 1 on far"):
        watch.check()


def test_a_lease_of_another_job_of_this_machine_counts_at_once_unless_its_process_is_dead(url: str) -> None:
    store = Store(url)
    _put(store, **{**lease._this_process(), "started": "1"}, job="")  # another process had its number
    Watch(store, "ours").check()
    _put(store, **lease._this_process(), job="")
    with pytest.raises(TrainingError, match="Another trainer writes to "):
        Watch(store, "ours").check()


@pytest.mark.parametrize("then", ["removed", "taken"])
def test_a_worker_whose_chief_had_the_lease_ends_without_it(url: str, then: str) -> None:
    store = Store(url)
    watch = Watch(store, "ours")
    _put(store, owner="killed long ago")
    watch.check()
    _put(store)
    for content in (b"", b'{"owner'):  # while it is written
        watch.check()
        store.write(LEASE, content)
        watch.check()
    _put(store, beat=2)
    watch.check()
    if then == "removed":
        store.remove(LEASE)
        message = "The chief, which wrote to .*, has ended before the workers met"
    else:
        _put(store, job="another")
        message = "Another trainer writes to "
    with pytest.raises(TrainingError, match=message):
        watch.check()


def test_a_chief_of_this_machine_that_was_killed_is_missed_at_once(url: str) -> None:
    store = Store(url)
    watch = Watch(store, "ours")
    _put(store, **lease._this_process())
    watch.check()
    _put(store, **{**lease._this_process(), "started": "1"})
    with pytest.raises(TrainingError, match="has ended before the workers met"):
        watch.check()


def test_a_dead_lease_says_nothing_of_the_chief(url: str) -> None:
    store = Store(url)
    watch = Watch(store, "ours")
    _put(store)
    watch.check()
    store.remove(LEASE)  # by hand, so that the chief need not wait
    watch.check()
