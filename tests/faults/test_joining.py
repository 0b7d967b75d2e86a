"""Workers that wait for others: they say for whom, and end on a signal or after their time limit."""

import contextlib
import hmac
import json
import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from t2t_lite.cli import datagen
from t2t_lite.distributed.cluster import Cluster
from t2t_lite.distributed.meeting_place import KEY_FILE
from t2t_lite.distributed.rendezvous import join
from t2t_lite.errors import T2TError
from tests.faults.material import SMALL, write_corpus
from tests.faults.workers import Job, free_addresses

ENDS = 60  # seconds, a generous limit for what should take one second


@pytest.fixture(scope="module")
def flags(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("data")
    corpus = write_corpus(folder / "corpus", SMALL, SMALL[:10])
    assert datagen.main([*corpus, f"--data_dir={folder}", "--num_workers=1"]) == 0
    return [*corpus, "--hparams_set=tiny", f"--data_dir={folder}"]


@pytest.mark.nightly
def test_workers_end_when_one_does_not_come(flags: list[str], tmp_path: Path) -> None:
    addresses = free_addresses(3)
    job = Job(tmp_path / "run", 2, *flags, "--join_timeout=10", addresses=addresses)
    assert job.end(120) == [1, 1], job.errors()
    for errors in job.errors():
        assert f"Waiting for worker 2 at {addresses[2]}, which may still be preparing data; giving up in " in errors
        assert "Traceback" not in errors
    assert (
        f"error: Worker 2 at {addresses[2]} did not come within 10 seconds. Start the same command on every worker; "
        "where one prepares data for longer than that, with a longer --join_timeout.\n"
    ) in job.errors()[0]
    assert not (tmp_path / "run").exists()


@pytest.mark.nightly
def test_signals_are_heeded_while_a_worker_waits(flags: list[str], tmp_path: Path) -> None:
    job = Job(tmp_path / "run", 2, *flags, missing=1)
    job.say("Waiting for worker 2 at ")
    job.signal(1, signal.SIGINT)
    job.signal(0, signal.SIGTERM)
    assert job.end(ENDS) == [143, 130], job.errors()
    for errors, name in zip(job.errors(), ("SIGTERM", "SIGINT"), strict=True):
        assert errors.endswith(
            f"\n{name}: interrupted; what was saved before is there. Resume with the same command on every worker\n"
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

    def __init__(self, run: Path, addresses: list[str], index: int, devices: int = 1, seconds: float = ENDS) -> None:
        super().__init__()
        self._given = (Cluster(tuple(addresses), index), devices, run, seconds)
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


def _ask(chief: _Worker, address: str, question: bytes | dict[str, Any], key: str = "") -> bytes:
    """The chief's answer to a question, which gets a seal made with `key`; it may not listen yet."""
    while chief.is_alive():
        with contextlib.suppress(ConnectionRefusedError):
            with socket.create_connection(("127.0.0.1", int(address.split(":")[1])), timeout=ENDS) as connection:
                lines = connection.makefile("rb")
                if isinstance(question, dict):
                    asked = {"nonce": "mine", **question}
                    sealed = json.dumps([json.loads(lines.readline())["nonce"], asked], sort_keys=True)
                    seal = hmac.new(key.encode(), sealed.encode(), "sha256").hexdigest()
                    question = json.dumps({"t2t_lite": 1, **asked, "seal": seal}).encode() + b"\n"
                    connection.sendall(question)
                    with contextlib.suppress(ConnectionResetError):
                        return lines.readline()
                connection.sendall(question)
            return b""
        time.sleep(0.01)
    pytest.fail(f"The chief has ended: {chief.result()}")


def _listening(address: str) -> socket.socket:
    """What TensorFlow's server does when a worker has joined: it takes the port."""
    return socket.create_server(("127.0.0.1", int(address.split(":")[1])))


@pytest.mark.commit
def test_workers_that_have_another_cluster_say_so(tmp_path: Path) -> None:
    addresses = free_addresses(3)
    chief = _Worker(tmp_path, addresses, 0, seconds=2)
    other = _Worker(tmp_path, addresses[:2], 1)
    assert other.result() == (
        f"2: The workers do not agree on the cluster. TF_CONFIG of worker 1 has {', '.join(addresses[:2])}; that of "
        f"worker 0 has {', '.join(addresses)}. Give all of them the same addresses in the same order."
    )
    assert chief.result().startswith(
        f"1: Worker 1 at {addresses[1]} and worker 2 at {addresses[2]} did not come within"
    )


@pytest.mark.commit
def test_of_two_workers_with_one_index_the_second_says_so_and_one_that_has_gone_can_come_again(tmp_path: Path) -> None:
    addresses = free_addresses(3)
    chief = _Worker(tmp_path, addresses, 0)
    _ask(chief, addresses[0], b"")  # until the key is there
    key = (tmp_path / KEY_FILE).read_text()
    first = {"process": "x", "index": 1, "devices": 1, "addresses": addresses}
    assert json.loads(_ask(chief, addresses[0], first, key))["missing"] == [2]
    second = _Worker(tmp_path, addresses, 1)
    while second.is_alive():
        assert json.loads(_ask(chief, addresses[0], first, key))["missing"] == [2]
        time.sleep(0.05)
    assert second.result() == (
        "2: Another process has come as worker 1 and is still there. Give each its own index in TF_CONFIG, and "
        "start each once."
    )
    again, other = _Worker(tmp_path, addresses, 1), _Worker(tmp_path, addresses, 2)
    assert (again.result(), other.result()) == ("", "")
    with _listening(addresses[1]), _listening(addresses[2]):
        assert chief.result() == ""


@pytest.mark.commit
def test_workers_with_other_numbers_of_devices_all_say_so(tmp_path: Path) -> None:
    addresses = free_addresses(3)
    workers = [_Worker(tmp_path, addresses, index, devices) for index, devices in enumerate((2, 1, 2))]
    assert {worker.result() for worker in workers} == {
        "2: The workers do not agree on the number of devices: 2, 1, 2. Give all of them the same --devices, at most 1."
    }


@pytest.mark.commit
def test_workers_that_see_other_folders_say_so(tmp_path: Path) -> None:
    addresses = free_addresses(3)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / KEY_FILE).write_text("0" * 64)
    chief = _Worker(tmp_path / "a", addresses, 0, seconds=2)
    none, other = (_Worker(tmp_path / name, addresses, index, seconds=1) for index, name in enumerate(("no", "b"), 1))
    assert (
        f"({tmp_path}/no/{KEY_FILE} cannot be read, No such file or directory: do both see the same --output_dir?)"
        in none.result()
    )
    assert "(it does not take this worker's key: do both see the same --output_dir?) did not" in other.result()
    assert " has come with another key: does it see the same --output_dir? Start the same " in chief.result()


GARBAGE = (
    b"GET / HTTP/1.1\r\n\r\n",
    b"[" * 5000 + b"\n",
    b"",
    b"\xff\n",
    b'{"t2t_lite": 1, "index": "1"}\n',
    b'{"t2t_lite": 1, "key": "0", "index": 1e999, "devices": 1, "addresses": []}\n',
    b'{"t2t_lite": 1, "missing": [-5]}\n',
    b'{"t2t_lite": 1, "missing": 1e999}\n',
)


@pytest.mark.commit
def test_what_strangers_say_ends_neither_the_chief_nor_a_worker(tmp_path: Path) -> None:
    """A worker has come, one is missing, and others send the chief anything; some have the key."""
    addresses = free_addresses(3)
    chief, first = _Worker(tmp_path, addresses, 0), _Worker(tmp_path, addresses, 1)
    for text in GARBAGE:
        _ask(chief, addresses[0], text)
    key, question = (tmp_path / KEY_FILE).read_text(), {"process": "x", "index": 2, "devices": 1}
    for wrong in ({}, {"addresses": None}, {"addresses": addresses, "devices": 1e999}, {"addresses": [1, 2, 3]}):
        assert _ask(chief, addresses[0], question | wrong, key) == b""
    assert json.loads(_ask(chief, addresses[0], {**question, "addresses": addresses}, "0")) == {"t2t_lite": 1}
    assert first.is_alive()
    last = _Worker(tmp_path, addresses, 2)
    assert (first.result(), last.result()) == ("", "")
    with _listening(addresses[1]), _listening(addresses[2]):
        assert chief.result() == ""


@pytest.mark.commit
def test_another_program_at_the_chiefs_address_ends_no_worker(tmp_path: Path) -> None:
    addresses = free_addresses(2)
    (tmp_path / KEY_FILE).write_text("left by a chief that was killed")
    with socket.create_server(("127.0.0.1", int(addresses[0].split(":")[1]))) as program:
        program.settimeout(ENDS)
        worker = _Worker(tmp_path, addresses, 1)
        for text in (b"220 mail\r\n", *GARBAGE):
            with program.accept()[0] as connection:
                connection.sendall(text)
    chief = _Worker(tmp_path, addresses, 0)
    assert worker.result() == ""
    with _listening(addresses[1]):
        assert chief.result() == ""


def test_the_key_is_for_this_user_alone_and_goes_at_the_end(tmp_path: Path) -> None:
    run = tmp_path / "run"
    chief = _Worker(run, free_addresses(2), 0, seconds=0.5)
    while not (run / KEY_FILE).exists():
        assert chief.is_alive()
    assert (run / KEY_FILE).stat().st_mode & 0o777 == 0o600
    assert "did not come" in chief.result()
    assert list(run.iterdir()) == []


@pytest.mark.commit
@pytest.mark.parametrize(("host", "note"), [("no.such.invalid", "unknown here: "), ("198.51.100.7", "none of this ")])
def test_an_own_address_that_is_not_ours_is_named(host: str, note: str, tmp_path: Path) -> None:
    own, other = free_addresses(2)  # separate ports: the look-up of a name may hold one after its test
    own = own.replace("127.0.0.1", host)
    with pytest.raises(T2TError, match=r"did not come within 1 second\.") as error:
        join(Cluster((own, other), 0), 1, tmp_path, 1)
    assert f"This worker's own address, {own}, is {note}" in str(error.value)
