"""The whole command, with clients that try to block others or crash the server."""

import contextlib
import json
import os
import random
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from t2t_lite.demo import server
from tests import commands

pytestmark = pytest.mark.commit

_HALF = b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"


@pytest.fixture(scope="module")
def page(export_base: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The address of the page, and the file of the command's error output."""
    folder = tmp_path_factory.mktemp("demo")
    out, err = folder / "out", folder / "err"
    os.mkfifo(out)
    process = commands.start("t2t_lite.cli.demo", f"--saved_model={export_base}", "--port=0", out=out, err=err)
    try:
        with open(out, encoding="utf-8") as lines:
            yield lines.readline().strip(), err
    finally:
        process.kill()
        process.join()


def _connect(url: str) -> socket.socket:
    address = urlsplit(url)
    assert address.hostname is not None
    return socket.create_connection((address.hostname, address.port or 80), timeout=60)


def _translated(url: str) -> int:
    body = json.dumps({"text": "a small dog"}).encode()
    request = urllib.request.Request(f"{url}translate", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return len(json.load(answer)["outputs"])


def _drip(sockets: list[socket.socket], done: threading.Event) -> None:
    """Sends a byte on each socket every 0.5 s until `done` is set."""
    while not done.wait(0.5):
        for connection in sockets:
            with contextlib.suppress(OSError):
                connection.send(b"a")


@pytest.mark.nightly
def test_connections_that_ask_nothing_keep_nobody_out_for_long(page: tuple[str, Path]) -> None:
    """The server takes 100 connections at a time. The test opens 150; the last 50 send one byte after another."""
    url, err = page
    done = threading.Event()
    with contextlib.ExitStack() as open_ones:
        sockets = [open_ones.enter_context(_connect(url)) for _ in range(150)]
        for connection in sockets[50:100]:
            connection.sendall(_HALF)
        for connection in sockets[100:]:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: ")
        dripping = threading.Thread(target=_drip, args=(sockets[100:], done))
        dripping.start()
        try:
            assert _translated(url) == 1
        finally:
            done.set()
            dripping.join()
    assert "Traceback" not in err.read_text("utf-8")


def test_junk_is_answered_or_refused(page: tuple[str, Path]) -> None:
    url, err = page
    generator = random.Random(1)
    whole = _HALF.replace(b"99", b"21") + b'"text": "a small d"}\n'
    for _ in range(100):
        junk = bytearray(whole)
        for _ in range(generator.randrange(1, 8)):
            junk[generator.randrange(len(junk))] = generator.randrange(256)
        with _connect(url) as connection:
            connection.sendall(junk)
            connection.shutdown(socket.SHUT_WR)
            answer = b""
            while part := connection.recv(65536):
                answer += part
        assert answer == b"" or answer.startswith(b"HTTP/1."), junk
        assert b" 500 " not in answer.split(b"\r\n")[0], junk
    assert _translated(url) == 1
    assert "Traceback" not in err.read_text("utf-8")


def test_a_client_that_takes_no_answer_loses_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_SECONDS", 1)

    def app(environment: object, start: Callable[[str, list[tuple[str, str]]], object]) -> list[bytes]:
        start("200 OK", [("Content-Length", "8000000")])
        return [b" " * 8_000_000]  # more than the system holds for both ends

    running = server.make_server(app, server.listen("127.0.0.1", 0))
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        connection.connect(("127.0.0.1", int(running.effective_port)))
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(15) == b"HTTP/1.1 200 OK"
        start = time.monotonic()
        while running.active_channels and time.monotonic() - start < 20:
            time.sleep(0.1)
        assert time.monotonic() - start < 8
    running.trigger.pull_trigger(lambda: running.asyncore.close_all(running._map))
    thread.join(30)
