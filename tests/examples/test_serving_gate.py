"""The gate of the serving example: which requests it passes to a server, and which it refuses itself."""

import contextlib
import gzip
import importlib.util
import json
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.client import conftest as serving
from tests.serving.server import Server

pytestmark = pytest.mark.commit

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "serving"
toy_base, _served, server = serving.toy_base, serving._served, serving.server
PATH = "/v1/models/toy/labels/stable:predict"


def load(name: str) -> Any:
    """Returns a script of the example as a module."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


gate = load("gate")


@pytest.fixture
def client(server: Server) -> Iterator[Any]:
    with gate.make_app(f"http://{server.rest}", "toy").test_client() as client:
        yield client


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        ({"inputs": ["a b"]}, {"outputs": {"outputs": ["b a"], "scores": [-0.25]}}),
        ({"inputs": {"inputs": ["a b"]}}, {"outputs": {"outputs": ["b a"], "scores": [-0.25]}}),
        ({"instances": [{"inputs": "a b"}, "c"]}, {"predictions": [{"outputs": "b a"}, {"outputs": "c"}]}),
        ({"signature_name": "nbest", "inputs": ["a"]}, {"outputs": {"outputs": [["a 1", "a 2", "a 3"]]}}),
    ],
)
def test_translations_pass(client: Any, body: dict[str, Any], answer: dict[str, Any]) -> None:
    answered = client.post(PATH, json=body)
    assert answered.status_code == 200

    def holds(got: Any, wanted: Any) -> bool:
        if isinstance(wanted, dict):
            return all(holds(got[name], value) for name, value in wanted.items())
        if isinstance(wanted, list) and wanted and isinstance(wanted[0], dict):
            return all(holds(*pair) for pair in zip(got, wanted, strict=True))
        return got == wanted

    assert holds(answered.get_json(), answer)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("{}", 'either "inputs" or "instances"'),
        ('{"inputs": ["a"], "instances": ["a"]}', 'either "inputs" or "instances"'),
        ('{"inputs": [["a"]]}', 'holds texts only, not ["a"]'),
        ('{"inputs": "a"}', "a list of 1 to 32 texts"),
        (json.dumps({"inputs": ["a"] * 33}), "a list of 1 to 32 texts"),
        ('{"instances": [3]}', "holds texts only, not 3"),
        ('{"inputs": ["\\ud800"]}', "half a character"),
        (json.dumps({"inputs": ["x" * 8001]}), "8,001 bytes; at most 8,000"),
        ('{"signature_name": "attention", "inputs": ["a"]}', "is one of serving_default, nbest"),
        ('{"inputs": ["a"], "output_filter": 1}', "no field 'output_filter'"),
    ],
)
def test_all_else_is_refused_and_the_server_never_sees_it(client: Any, server: Server, body: str, words: str) -> None:
    answer = client.post(PATH, data=body)
    assert answer.status_code == 400
    assert words in answer.get_json()["error"]
    assert server.model.requests == []


@pytest.mark.parametrize(
    "path", ["/", "/v1/models/toy", "/v1/models/toy/metadata", PATH.replace("toy", "other"), PATH[:-1]]
)
def test_other_paths_are_not_there(client: Any, server: Server, path: str) -> None:
    for answer in (client.get(path), client.post(path, json={"inputs": ["a"]})):
        assert answer.status_code in (404, 405)
        assert answer.get_json()["error"].endswith(".")
    assert server.model.requests == []


def test_what_the_server_answers_comes_back_as_it_is(client: Any) -> None:
    answer = client.post(PATH.replace("stable", "new"), json={"inputs": ["a"]})
    assert (answer.status_code, answer.get_json()["error"]) == (400, "Unrecognized servable version label: new")


def test_a_server_that_is_gone_is_said() -> None:
    with gate.make_app("http://127.0.0.1:9", "toy").test_client() as client:
        answer = client.post(PATH, json={"inputs": ["a"]})
    assert (answer.status_code, answer.get_json()) == (503, {"error": "The server cannot be reached."})


@contextlib.contextmanager
def _running(address: str, seconds: float = 20.0) -> Iterator[Any]:
    """Runs a gate in front of the server at this address, and yields it."""
    running = gate.make_server(gate.make_app(f"http://{address}", "toy", seconds), "127.0.0.1", 0)
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    yield running
    running.trigger.pull_trigger(lambda: running.asyncore.close_all(running._map))
    thread.join(30)


@pytest.fixture
def port(server: Server) -> Iterator[int]:
    with _running(server.rest) as running:
        yield running.effective_port


HEAD = f"POST {PATH} HTTP/1.1\r\nHost: gate\r\n".encode()
REQUEST = HEAD + b'Connection: close\r\nContent-Length: 17\r\n\r\n{"inputs": ["a"]}'


def _connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=30)


def _answer(connection: socket.socket) -> bytes:
    """What comes until the connection ends."""
    answer = b""
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(1 << 16):
            answer += part
    return answer


def _ask(port: int) -> tuple[bytes, float]:
    """Sends a good request; returns the answer and how many seconds it took."""
    start = time.monotonic()
    with _connect(port) as connection:
        connection.sendall(REQUEST)
        return _answer(connection), time.monotonic() - start


def test_a_large_body_is_refused_by_its_length(port: int, server: Server) -> None:
    with _connect(port) as connection:
        connection.sendall(HEAD + b"Content-Length: 700000000\r\n\r\n")
        assert _answer(connection).startswith(b"HTTP/1.1 413 ")
    assert server.model.requests == []


def test_a_chunked_body_is_refused_where_it_passes_the_limit(port: int, server: Server) -> None:
    sent = 0
    with _connect(port) as connection, contextlib.suppress(ConnectionError):
        connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        while sent < 100 << 20:
            connection.sendall(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
            sent += 0x10000
    assert sent < 20 << 20  # the limit, and what the system holds for both ends
    assert server.model.requests == []


@pytest.mark.parametrize("begun", [b"", b"POST / HT", HEAD, HEAD + b"Content-Length: 99\r\n\r\n{"])
def test_connections_that_drip_keep_nobody_out(port: int, begun: bytes) -> None:
    with contextlib.ExitStack() as open_ones:
        slow = [open_ones.enter_context(_connect(port)) for _ in range(300)]
        for connection in slow:
            with contextlib.suppress(ConnectionError):
                connection.sendall(begun)
        answer, seconds = _ask(port)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert seconds < 8


def test_pieces_of_a_request_do_not_extend_its_time(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "CLIENT_SECONDS", 1)
    with _running(server.rest) as running, _connect(running.effective_port) as connection:
        connection.sendall(HEAD + b"Content-Length: 99\r\n\r\n")
        start = time.monotonic()
        connection.settimeout(0.2)
        while time.monotonic() - start < 20:
            try:
                connection.sendall(b" ")
                if connection.recv(1) == b"":
                    break
            except TimeoutError:
                continue
            except ConnectionError:
                break
        assert time.monotonic() - start < 8


def test_an_answer_that_nobody_takes_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "CLIENT_SECONDS", 1)
    large = b"HTTP/1.1 200 OK\r\nContent-Length: 8000000\r\n\r\n" + b" " * 8_000_000
    with (
        _backend(large) as address,
        _running(address) as running,
        socket.socket() as connection,
    ):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        connection.connect(("127.0.0.1", int(running.effective_port)))
        connection.sendall(REQUEST)
        assert connection.recv(15) == b"HTTP/1.1 200 OK"
        start = time.monotonic()
        while running.active_channels and time.monotonic() - start < 20:
            connection.recv(1)
            time.sleep(0.1)
        assert time.monotonic() - start < 8


@contextlib.contextmanager
def _backend(answer: bytes, drip: bytes = b"") -> Iterator[str]:
    """A server that gives this answer to each request, and then sends `drip` again and again; yields its address."""
    ended = threading.Event()

    def serve(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection, contextlib.suppress(ConnectionError):
                    request = b""
                    while not request.endswith(b"}"):
                        request += connection.recv(1 << 16)
                    connection.sendall(answer)
                    while drip and not ended.wait(0.1):
                        connection.sendall(drip)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        ended.set()


BOMB = gzip.compress(b" " * (64 << 20))


@pytest.mark.parametrize(
    ("answer", "drip", "status", "words"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n", b" ", 504, "no answer in time"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n", 504, "no answer in time"),
        (b"HTTP/1.1 200 OK\r\nX-Long: ", b"x", 504, "no answer in time"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(BOMB) + BOMB,
            b"",
            502,
            "cannot be handed on",
        ),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b" " * (9 << 20), b"", 502, "cannot be handed on"),
        (b"SSH-2.0\r\n", b"", 502, "cannot be handed on"),
        (b"", b"", 503, "cannot be reached"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_an_answer_that_drips_or_swells_is_not_handed_on(answer: bytes, drip: bytes, status: int, words: str) -> None:
    with _backend(answer, drip) as address, gate.make_app(f"http://{address}", "toy", 1.0).test_client() as client:
        start = time.monotonic()
        got = client.post(PATH, json={"inputs": ["a"]})
        assert (got.status_code, words in got.get_json()["error"]) == (status, True)
        assert time.monotonic() - start < 5


@pytest.mark.nightly
@pytest.mark.parametrize("protocol", ["rest", "grpc"])
def test_the_soak_counts_rows_and_finds_wrong_ones(
    server: Server, protocol: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    soak = load("soak")
    flags = [f"--server={server.address(protocol)}", "--model=toy", f"--protocol={protocol}", "--minutes=0.02"]
    assert soak.main([*flags, "--clients=3", "--bad_pause=0.05"]) == 0
    said = capsys.readouterr().out
    assert " rows\n" in said
    assert "wrong" not in said
    assert "p50" in said
    assert ("bad requests answered 400" in said) == (protocol == "rest")
    once = soak.Soak.__init__

    def other(self: Any, *args: Any) -> None:
        once(self, *args)
        self._single = {line: answer.__class__("no such text", -9.0) for line, answer in self._single.items()}

    monkeypatch.setattr(soak.Soak, "__init__", other)
    assert soak.main([*flags, "--clients=1"]) == 1
    assert "wrong rows" in capsys.readouterr().out
