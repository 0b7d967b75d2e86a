"""The client's connections: kept open, answers that trickle in, answers in chunks, wrong ports."""

import contextlib
import http.client
import http.server
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from t2t_lite.client.client import ServerTranslator
from t2t_lite.client.errors import NoAnswerError, ServerError
from tests.serving.server import Server


@contextlib.contextmanager
def raw_server(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """Runs a server that reads from each connection, then calls `answer` with it; yields the server's address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def run() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    with connection, contextlib.suppress(OSError):
                        connection.recv(65536)
                        answer(connection)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
    thread.join(10)


OK = b'HTTP/1.1 200 OK\r\nContent-Length: 18\r\n\r\n{"outputs": ["a"]}'


def test_a_kept_connection_that_the_server_has_closed_is_replaced() -> None:
    with (
        raw_server(lambda connection: connection.sendall(OK)) as address,
        ServerTranslator(address, "toy") as translator,
    ):
        for _ in range(3):
            assert translator.translate(["a"])[0][0].text == "a"
            time.sleep(0.05)


class _Fragile(http.server.BaseHTTPRequestHandler):
    """Answers after a while; a request with "end" in it ends its connection without an answer."""

    protocol_version = "HTTP/1.1"
    ended = 0

    def do_POST(self) -> None:
        if b"end" in self.rfile.read(int(self.headers["Content-Length"])):
            type(self).ended += 1
            self.close_connection = True
            return
        time.sleep(0.2)
        self.wfile.write(OK)

    def log_message(self, *args: object) -> None:
        pass


@pytest.mark.commit
def test_a_request_that_ends_its_connection_is_sent_at_most_twice() -> None:
    _Fragile.ended = 0
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Fragile) as fragile:
        threading.Thread(target=fragile.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{fragile.server_address[1]}"
        with ServerTranslator(address, "toy", batch_size=1, concurrency=4) as translator:
            translator.translate(["a"] * 8)  # four connections are kept
            with pytest.raises(NoAnswerError, match="closed the connection"):
                translator.translate(["end"])
            assert _Fragile.ended == 2
            with pytest.raises(NoAnswerError, match="closed the connection"):
                translator.translate(["end"])  # on a new connection
            assert _Fragile.ended == 3
        fragile.shutdown()


def test_an_answer_that_says_the_connection_closes() -> None:
    closing = OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    with (
        raw_server(lambda connection: connection.sendall(closing)) as address,
        ServerTranslator(address, "toy") as translator,
    ):
        for _ in range(2):
            assert translator.translate(["a"])[0][0].text == "a"


def test_an_answer_in_drops_is_cut_off_at_the_deadline() -> None:
    def drip(connection: socket.socket) -> None:
        connection.sendall(OK[:-10])
        for _ in range(40):
            time.sleep(0.1)
            connection.sendall(b" ")

    start = time.monotonic()
    with (
        raw_server(drip) as address,
        ServerTranslator(address, "toy", timeout=0.5) as translator,
        pytest.raises(NoAnswerError, match="no answer within 0.5 s"),
    ):
        translator.translate(["a"])
    assert time.monotonic() - start < 30


def test_an_answer_in_chunks() -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b'8\r\n{"output\r\n9\r\ns":["a"]}\r\n'
    for end, fine in ((b"0\r\n\r\n", True), (b"", False)):
        with (
            raw_server(lambda connection, end=end: connection.sendall(chunked + end)) as address,
            ServerTranslator(address, "toy") as translator,
        ):
            if fine:
                assert translator.translate(["a"])[0][0].text == "a"
            else:
                with pytest.raises(NoAnswerError, match="before its answer was whole"):
                    translator.translate(["a"])


def test_the_wrong_port(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("t2t_lite.client.client._FIRST_DELAY", 0.001)
    with ServerTranslator(server.grpc, "toy") as translator, pytest.raises(ServerError, match="8501; 8500 is gRPC's"):
        translator.translate(["a"])
    with ServerTranslator(server.rest, "toy", "grpc") as translator, pytest.raises(ServerError):
        translator.translate(["a"])
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    for protocol in ("rest", "grpc"):
        with (
            ServerTranslator(f"127.0.0.1:{port}", "toy", protocol) as translator,
            pytest.raises(ServerError, match=f"127.0.0.1:{port}.*refused"),
        ):
            translator.translate(["a"])
    with (
        ServerTranslator("no-such-host.invalid:8501", "toy") as translator,
        pytest.raises(NoAnswerError, match="no-such-host.invalid:8501 cannot be reached"),
    ):
        translator.translate(["a"])
