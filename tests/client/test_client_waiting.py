"""How the client waits: servers that start later, models that load, requests that are given up."""

import socket
import threading
import time
from pathlib import Path

import pytest

from t2t_lite.client import errors
from t2t_lite.client.client import ServerTranslator
from t2t_lite.errors import T2TError
from tests.client.test_client_connections import raw_server
from tests.serving.server import Server, serve


def test_closing_ends_what_is_under_way(server: Server, protocol: str) -> None:
    server.model.delay = lambda: 5.0
    start = time.monotonic()
    with ServerTranslator(server.address(protocol), "toy", protocol, batch_size=1) as translator:
        answers = translator.stream(["a", "b"])
        asking = threading.Thread(target=pytest.raises, args=(errors.ServerError, next, answers))
        asking.start()
        while server.model.in_flight < 2:
            time.sleep(0.01)
    asking.join(5)
    assert time.monotonic() - start < 5


@pytest.mark.nightly
def test_waiting_for_a_server_that_starts_later(toy_base: Path, protocol: str) -> None:
    with serve(toy_base, "toy") as earlier:
        address = earlier.address(protocol)
    port = int(address.rpartition(":")[2])
    with ServerTranslator(address, "toy", protocol) as translator:
        with pytest.raises(T2TError, match=r"\(Waited for 0.3 s.\)") as caught:
            translator.wait(0.3)
        assert isinstance(caught.value, errors.NoAnswerError | errors.BusyError)
        ready = threading.Event()

        def wait() -> None:
            translator.wait(60)
            ready.set()

        waiting = threading.Thread(target=wait)
        waiting.start()
        time.sleep(0.3)
        assert not ready.is_set()
        with serve(toy_base, "toy", **{f"{protocol}_port": port}):
            waiting.join(60)
            assert ready.is_set()
            assert translator.translate(["a b"])[0][0].text == "b a!"


@pytest.mark.parametrize("status", [502, 504])
def test_waiting_behind_a_proxy_whose_server_starts(status: int) -> None:
    """While waiting, the proxy's refusal is not the end; a translation's request is not sent again after it."""
    ready = b'{"model_version_status": [{"version": "1", "state": "AVAILABLE", "status": {"error_message": ""}}]}'
    refusal = (status, b"<html>")
    answers, asked = iter([refusal, refusal, (200, ready), refusal]), []

    def answer(connection: socket.socket) -> None:
        code, body = next(answers)
        asked.append(code)
        connection.sendall(b"HTTP/1.1 %d x\r\nContent-Length: %d\r\n\r\n%b" % (code, len(body), body))

    with raw_server(answer) as address, ServerTranslator(address, "toy") as translator:
        translator.wait(30)
        assert asked == [status, status, 200]
        with pytest.raises(errors.NoAnswerError, match=f"answered {status}"):
            translator.translate(["a"])
    assert asked == [status, status, 200, status]


@pytest.mark.commit
def test_waiting_for_a_model_that_loads(toy_base: Path, tmp_path: Path, protocol: str) -> None:
    (tmp_path / "3").mkdir()  # a version without a SavedModel
    with (
        serve(tmp_path, "toy") as server,
        ServerTranslator(server.address(protocol), "toy", protocol) as translator,
    ):
        with pytest.raises(errors.ServerError, match=r"is not ready: version 3 END .*Waited"):
            translator.wait(0.2)
        server.model.states[3] = ("LOADING", "")
        with pytest.raises(errors.ServerError, match="is not ready: version 3 LOADING"):
            translator.wait(0.2)
        (tmp_path / "4").symlink_to(toy_base / "1")
        loading = threading.Timer(0.3, server.model.refresh)
        loading.start()
        translator.wait(60)
        assert translator.translate(["a b"])[0][0].text == "b a"
        loading.join()


@pytest.mark.commit
def test_waiting_for_a_model_that_never_comes(server: Server, protocol: str) -> None:
    for which, words in (({}, "any versions of model none"), ({"version": 7}, "version 7 of model none")):
        with (
            ServerTranslator(server.address(protocol), "none", protocol, **which) as translator,
            pytest.raises(errors.UnknownModelError, match=rf"Could not find {words}.*Waited for 0.2 s"),
        ):
            translator.wait(0.2)
