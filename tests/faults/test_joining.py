"""Workers that wait for others: they say for whom, and end on a signal or after their time limit."""

import signal
import socket
import threading
import time
from pathlib import Path

import pytest

from t2t_lite.bin import datagen
from t2t_lite.distributed.cluster import Cluster
from t2t_lite.distributed.joining import join
from t2t_lite.errors import T2TError
from tests.faults.material import SMALL, write_corpus
from tests.faults.workers import Job, free_addresses

ENDS = 60  # seconds, a generous limit for what should take one second


@pytest.fixture(scope="module")
def flags(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("data")
    corpus = write_corpus(folder / "corpus", SMALL, SMALL[:10])
    assert datagen.main([*corpus, f"--data_dir={folder}", "--num_workers=1"]) == 0
    return [*corpus, "--hparams_set=tiny", "--hparams=micro_batches=2", f"--data_dir={folder}"]


def test_workers_end_when_one_does_not_come(flags: list[str], tmp_path: Path) -> None:
    addresses = free_addresses(3)
    job = Job(tmp_path / "run", 2, *flags, "--join_timeout=10", "--fill_micro_batches", addresses=addresses)
    assert job.end(120) == [1, 1], job.errors()
    for errors in job.errors():
        assert f"Waiting for worker 2 at {addresses[2]}, which may still be preparing data; giving up in " in errors
        assert "Traceback" not in errors
    assert (
        f"error: Worker 2 at {addresses[2]} did not come within 10 seconds. Start the same command on every worker; "
        "where one prepares data for longer than that, with a longer --join_timeout.\n"
    ) in job.errors()[0]
    assert not (tmp_path / "run").exists()


def test_signals_are_heeded_while_a_worker_waits(flags: list[str], tmp_path: Path) -> None:
    job = Job(tmp_path / "run", 2, *flags, "--fill_micro_batches", missing=1)
    job.say("Waiting for worker 2 at ")
    job.signal(1, signal.SIGINT)
    job.signal(0, signal.SIGTERM)
    assert job.end(ENDS) == [143, 130], job.errors()
    for errors, name in zip(job.errors(), ("SIGTERM", "SIGINT"), strict=True):
        assert errors.endswith(
            f"\n{name}: interrupted; what was saved before is there. Go on with the same command on every worker\n"
        )


def test_a_port_in_use_is_named(flags: list[str], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        job = Job(tmp_path / "run", 1, *flags, addresses=[f"127.0.0.1:{port}", *free_addresses(1)])
        assert job.end(ENDS) == [1], job.errors()
    assert (
        f"error: Port {port} of this machine, which TF_CONFIG gives to this worker (0), is in use " in job.errors()[0]
    )
    assert "Traceback" not in job.errors()[0]


class _Worker(threading.Thread):
    """One worker that joins, in this process."""

    def __init__(self, addresses: list[str], index: int, devices: int = 1, seconds: float = ENDS) -> None:
        super().__init__()
        self._given = (Cluster(tuple(addresses), index), devices, seconds)
        self.error = ""
        self.start()

    def run(self) -> None:
        try:
            join(*self._given)
        except T2TError as error:
            self.error = f"{error.exit_status}: {error}"

    def result(self) -> str:
        self.join()
        return self.error


def _connected(chief: _Worker, address: str) -> socket.socket:
    """A connection to the chief, which may not listen yet."""
    while chief.is_alive():
        try:
            return socket.create_connection(("127.0.0.1", int(address.split(":")[1])), timeout=ENDS)
        except ConnectionRefusedError:
            time.sleep(0.01)
    pytest.fail(f"The chief has ended: {chief.result()}")


def test_workers_that_have_another_cluster_say_so() -> None:
    addresses = free_addresses(3)
    chief = _Worker(addresses, 0, seconds=3)
    other = _Worker(addresses[:2], 1)
    assert other.result() == (
        f"2: The workers do not agree on the cluster. TF_CONFIG of worker 1 has {', '.join(addresses[:2])}; that of "
        f"worker 0 has {', '.join(addresses)}. Give all of them the same addresses in the same order."
    )
    assert chief.result().startswith(
        f"1: Worker 1 at {addresses[1]} and worker 2 at {addresses[2]} did not come within"
    )


def test_of_two_workers_with_one_index_the_first_says_so() -> None:
    addresses = free_addresses(3)
    chief, first = _Worker(addresses, 0, seconds=6), _Worker(addresses, 1)
    with _connected(chief, addresses[0]) as second:
        first.join(1)
        hello = {"t2t_lite": 1, "index": 1, "devices": 1, "addresses": addresses}
        second.sendall(f"{hello}\n".replace("'", '"').encode())
        assert first.result().startswith("2: Another process has come as worker 1. ")
    assert "did not come within" in chief.result()


def test_a_stranger_at_the_chiefs_address_is_named_and_at_the_chief_is_left_out() -> None:
    addresses = free_addresses(2)
    with socket.create_server(("127.0.0.1", int(addresses[0].split(":")[1]))) as stranger:
        worker = _Worker(addresses, 1, seconds=2)
        with stranger.accept()[0] as connection:
            connection.sendall(b"220 mail\r\n")
            stranger.close()
            assert worker.result().startswith(f"1: Worker 0 at {addresses[0]} (")
    chief = _Worker(addresses, 0, seconds=2)
    for text in (b"GET / HTTP/1.1\r\n\r\n", b'{"t2t_lite": 1, "index": "1"}\n', b"[" * 5000 + b"\n", b"", b"\xff\n"):
        with _connected(chief, addresses[0]) as guest:
            guest.sendall(text)
    assert chief.result().startswith(f"1: Worker 1 at {addresses[1]} did not come within 2 seconds.")


@pytest.mark.parametrize(("host", "note"), [("no.such.invalid", "unknown here: "), ("198.51.100.7", "none of this ")])
def test_an_own_address_that_is_not_ours_is_named(host: str, note: str) -> None:
    own, other = free_addresses(2)  # separate ports: the look-up of a name may hold one after its test
    own = own.replace("127.0.0.1", host)
    with pytest.raises(T2TError, match=r"did not come within 1 second\.") as error:
        join(Cluster((own, other), 0), 1, 1)
    assert f"This worker's own address, {own}, is {note}" in str(error.value)
