"""Workers that wait for others: they say for whom, and end on a signal or after their time limit."""

import contextlib
import json
import random
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from t2t_lite.cli import datagen
from t2t_lite.distributed.cluster import Cluster
from t2t_lite.distributed.joining import join
from t2t_lite.distributed.seals import KEY_FILE, SealError, Seals, new_key, read_key
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


@pytest.mark.commit
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


def _connected(chief: _Worker, address: str) -> socket.socket:
    """A connection to the chief, which may not listen yet."""
    while chief.is_alive():
        try:
            return socket.create_connection(("127.0.0.1", int(address.split(":")[1])), timeout=ENDS)
        except ConnectionRefusedError:
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
    with _Guest(chief, addresses, tmp_path) as first:
        first.say({"index": 1, "devices": 1, "addresses": addresses})
        assert first.hear() == {"missing": [2]}
        second = _Worker(tmp_path, addresses, 1)
        assert second.result() == (
            "2: Another process has come as worker 1 and is still there. Give each its own index in TF_CONFIG, and "
            "start each once."
        )
        assert first.hear() == {"missing": [2]}
    again, other = _Worker(tmp_path, addresses, 1), _Worker(tmp_path, addresses, 2)
    assert (again.result(), other.result()) == ("", "")
    with _listening(addresses[1]), _listening(addresses[2]):
        assert chief.result() == ""


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
    assert " A process at " in chief.result()
    assert " has come with another key: does it see the same --output_dir? Start the same " in chief.result()


class _Guest:
    """A process that talks to the chief as a worker does, with the key of a folder."""

    def __init__(self, chief: _Worker, addresses: list[str], run: Path) -> None:
        self._connection = _connected(chief, addresses[0])
        self._lines = self._connection.makefile("rb")
        self._seals = Seals(read_key(run), is_chief=False)
        self._connection.sendall(self._seals.first_line())
        assert self._seals.read(self._lines.readline()) is None

    def __enter__(self) -> "_Guest":
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()
        self._connection.close()

    def say(self, message: dict[str, Any]) -> None:
        self._connection.sendall(self._seals.seal(message))

    def hear(self) -> dict[str, Any]:
        """The next message of the chief; {} if it has ended the connection."""
        line = self._lines.readline()
        return self._seals.read(line) or {} if line else {}


GARBAGE = (
    b"GET / HTTP/1.1\r\n\r\n",
    b"[" * 5000 + b"\n",
    b"",
    b"\xff\n",
    b'{"t2t_lite": 1, "index": "1"}\n',
    b'{"t2t_lite": 1, "index": 1e999, "devices": 1, "addresses": []}\n',
    b'{"t2t_lite": 1, "index": 1, "devices": 5, "addresses": [%s]}\n',
    b'{"t2t_lite": 1, "nonce": 1e999}\n',
    b'{"t2t_lite": 1, "nonce": "x"}\n{"t2t_lite": 1, "text": "{}", "seal": "\\ud800"}\n',
    b'{"t2t_lite": 1, "nonce": "x"}\n{"t2t_lite": 1, "text": "{}", "seal": "00"}\n',
)


def test_what_strangers_say_ends_neither_the_chief_nor_a_worker(tmp_path: Path) -> None:
    """While a worker has come, one is missing, and strangers send messages as t2t-lite's and any others."""
    draw = random.Random(11)
    addresses = free_addresses(3)
    chief, first = _Worker(tmp_path, addresses, 0), _Worker(tmp_path, addresses, 1)
    mine = ", ".join(f'"{address}"' for address in addresses).encode()
    strange = [text.replace(b"%s", mine) for text in GARBAGE] + [_random_lines(draw, addresses) for _ in range(100)]
    for text in strange:
        with _connected(chief, addresses[0]) as stranger, contextlib.suppress(ConnectionError):
            stranger.sendall(text)
    assert first.is_alive()
    last = _Worker(tmp_path, addresses, 2)
    assert (first.result(), last.result()) == ("", "")
    with _listening(addresses[1]), _listening(addresses[2]):
        assert chief.result() == ""


def _random_lines(draw: random.Random, addresses: list[str]) -> bytes:
    """One to three lines of JSON with the names of t2t-lite's messages and values of any type."""
    names = ("t2t_lite", "nonce", "text", "seal", "index", "devices", "addresses", "missing", "refused")

    def value(depth: int = 0) -> Any:
        simple = (0, 1, 1, -5, 2**70, 1e999, float("nan"), True, None, "", "1", "\ud800", "x" * 99, addresses)
        kind = draw.randrange(4 if depth < 3 else 2)
        if kind < 2:
            return draw.choice(simple)
        some = [value(depth + 1) for _ in range(draw.randrange(3))]
        return some if kind == 2 else {draw.choice(names): each for each in some}

    lines = [{"t2t_lite": 1, **{name: value() for name in draw.sample(names, 4)}} for _ in range(draw.randint(1, 3))]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


@pytest.mark.commit
@pytest.mark.parametrize(
    "wrong",
    [
        {"index": 1e999}, {"index": 1.0}, {"index": True}, {"index": "1"}, {"index": -1}, {"index": None},
        {"devices": 0}, {"devices": 2.0}, {"devices": 10**9}, {"addresses": None}, {"addresses": "a"},
    ],
    ids=str,
)  # fmt: skip
def test_numbers_of_another_type_or_range_are_refused(tmp_path: Path, wrong: dict[str, Any], chief_alone: Any) -> None:
    """Also from a process that has the key."""
    chief, addresses, run = chief_alone
    with _Guest(chief, addresses, run) as guest:
        guest.say({"index": 1, "devices": 1, "addresses": addresses} | wrong)
        assert guest.hear() == {}
    assert chief.is_alive()


@pytest.fixture(scope="module")
def chief_alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[_Worker, list[str], Path]]:
    """A chief that waits for one worker, which then comes."""
    addresses, run = free_addresses(2), tmp_path_factory.mktemp("run")
    chief = _Worker(run, addresses, 0)
    _connected(chief, addresses[0]).close()
    yield chief, addresses, run
    assert _Worker(run, addresses, 1).result() == ""
    with _listening(addresses[1]):
        assert chief.result() == ""


def test_many_strangers_who_say_nothing_do_not_keep_a_worker_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("t2t_lite.distributed.rendezvous._MOST_STRANGERS", 8)
    addresses = free_addresses(2)
    chief = _Worker(tmp_path, addresses, 0)
    with contextlib.ExitStack() as silent:
        for _ in range(30):
            silent.enter_context(_connected(chief, addresses[0]))
        assert _Worker(tmp_path, addresses, 1).result() == ""
    with _listening(addresses[1]):
        assert chief.result() == ""


@pytest.mark.commit
def test_what_a_false_chief_says_ends_no_worker(tmp_path: Path) -> None:
    addresses = free_addresses(2)
    (tmp_path / KEY_FILE).write_text("0" * 64)
    with socket.create_server(("127.0.0.1", int(addresses[0].split(":")[1]))) as false_chief:
        worker = _Worker(tmp_path, addresses, 1)
        for text in (
            b"220 mail\r\n",
            b'{"t2t_lite": 1, "missing": [-5]}\n',
            b'{"t2t_lite": 1, "missing": [1e999]}\n',
            b'{"t2t_lite": 1, "missing": []}\n',
            b'{"t2t_lite": 1, "refused": "Start another program."}\n',
            b'{"t2t_lite": 1, "nonce": "x"}\n{"t2t_lite": 1, "text": "{\\"missing\\": []}", "seal": "00"}\n',
            b"",
        ):
            with false_chief.accept()[0] as connection:
                connection.sendall(text)
    chief = _Worker(tmp_path, addresses, 0)
    assert worker.result() == ""
    with _listening(addresses[1]):
        assert chief.result() == ""


def test_the_key_is_for_this_user_alone_and_goes_when_the_workers_have_met(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / KEY_FILE).parent.mkdir()
    (run / KEY_FILE).write_text("left by a chief that was killed")
    with new_key(run) as key:
        assert ((run / KEY_FILE).stat().st_mode & 0o777, read_key(run)) == (0o600, key)
        assert [path.name for path in run.iterdir()] == [KEY_FILE]
    assert list(run.iterdir()) == []


def test_a_seal_fits_one_message_of_one_connection() -> None:
    def pair(key: bytes = b"k") -> tuple[Seals, Seals]:
        chief, worker = Seals(key, is_chief=True), Seals(b"k", is_chief=False)
        assert chief.read(worker.first_line()) is worker.read(chief.first_line()) is None
        return chief, worker

    chief, worker = pair()
    one, two = worker.seal({"a": 1}), worker.seal({"a": 2})
    assert (chief.read(one), chief.read(two)) == ({"a": 1}, {"a": 2})
    with pytest.raises(SealError):
        chief.read(two)  # again
    chief, worker = pair()
    with pytest.raises(SealError):
        chief.read(one)  # of another connection
    chief, worker = pair()
    with pytest.raises(SealError):
        worker.read(worker.seal({"a": 1}))  # its own, sent back
    chief, worker = pair()
    with pytest.raises(SealError):
        chief.read(worker.seal({"a": 1}).replace(b"1}", b"2}"))
    chief, worker = pair(b"another")
    with pytest.raises(SealError):
        chief.read(worker.seal({"a": 1}))


@pytest.mark.commit
@pytest.mark.parametrize(("host", "note"), [("no.such.invalid", "unknown here: "), ("198.51.100.7", "none of this ")])
def test_an_own_address_that_is_not_ours_is_named(host: str, note: str, tmp_path: Path) -> None:
    own, other = free_addresses(2)  # separate ports: the look-up of a name may hold one after its test
    own = own.replace("127.0.0.1", host)
    with pytest.raises(T2TError, match=r"did not come within 1 second\.") as error:
        join(Cluster((own, other), 0), 1, tmp_path, 1)
    assert f"This worker's own address, {own}, is {note}" in str(error.value)
