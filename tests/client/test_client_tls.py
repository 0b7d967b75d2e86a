"""The client and a server with TLS; the test makes the certificate."""

import contextlib
import os
import shutil
import ssl
import subprocess
import threading
from pathlib import Path
from typing import Any

import grpc
import pytest

from t2t_lite.client import errors
from t2t_lite.client import grpc as grpc_client
from t2t_lite.client.client import ServerTranslator
from t2t_lite.client.endpoint import Target
from tests.serving import grpc_front, rest_front
from tests.serving.served_model import ServedModel


@pytest.mark.commit
def test_tls(toy_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: str) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost "
        f"-addext subjectAltName=IP:127.0.0.1 -keyout {key.name} -out {certificate.name}".split(),
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    model = ServedModel(toy_base, "toy", {}, "latest")
    model.refresh()
    if protocol == "grpc":
        pair = (key.read_bytes(), certificate.read_bytes())
        server, port = grpc_front.start(model, 0, grpc.ssl_server_credentials([pair]))
        stop = lambda: server.stop(grace=0).wait()  # noqa: E731
    else:
        rest = rest_front.start(model, 0, 30.0)
        port = rest.server_address[1]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        rest.socket = context.wrap_socket(rest.socket, server_side=True)
        threading.Thread(target=rest.serve_forever, args=(0.05,), daemon=True).start()
        stop = lambda: (rest.shutdown(), rest.server_close())  # noqa: E731
    try:
        monkeypatch.delenv(grpc_client._ROOTS, raising=False)
        with (
            ServerTranslator(f"https://127.0.0.1:{port}", "toy", protocol) as stranger,
            pytest.raises(errors.NoAnswerError, match="(?i)certificate.verify.failed"),
        ):
            stranger.translate(["a b"])
        monkeypatch.setenv("SSL_CERT_FILE", os.fspath(certificate))
        with ServerTranslator(f"https://127.0.0.1:{port}", "toy", protocol) as translator:
            assert translator.translate(["a b"])[0][0].text == "b a!"
    finally:
        stop()


def test_the_certificates_that_grpc_trusts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "certificates.pem"
    file.write_bytes(b"PEM")
    monkeypatch.setenv("SSL_CERT_FILE", os.fspath(file))
    monkeypatch.delenv(grpc_client._ROOTS, raising=False)
    assert grpc_client._roots() == b"PEM"
    monkeypatch.setenv(grpc_client._ROOTS, "other.pem")  # gRPC reads it itself
    assert grpc_client._roots() is None


class _Unavailable(grpc.RpcError):
    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAVAILABLE

    def details(self) -> str:
        return f"failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: {self.args[0]}"


@pytest.mark.parametrize(
    ("said", "error", "advice"),
    [
        (
            "Custom verification check failed with error: UNAUTHENTICATED: Hostname Verification Check failed.",
            errors.NoAnswerError,
            "must be for this host",
        ),
        (
            "Tls handshake failed (TSI_PROTOCOL_FAILURE): SSL_ERROR_SSL: error:100000f7:SSL routines:OPENSSL_internal:"
            "WRONG_VERSION_NUMBER: Invalid certificate verification context: OK",
            errors.NoAnswerError,
            "without TLS leave out https://",
        ),
        ("Cannot check peer: missing selected ALPN property.", errors.ServerError, "does not speak gRPC"),
        ("Handshake read failed (Socket closed)", errors.BusyError, "still starting"),
    ],
)
def test_what_grpc_says_of_tls(said: str, error: type, advice: str) -> None:
    """Words of grpcio 1.85.3."""

    def refuse(request: Any, timeout: float) -> Any:
        raise _Unavailable(said)

    rpc = grpc_client.Rpc(Target.parse("https://localhost:8500", "toy"))
    with contextlib.closing(rpc), pytest.raises(error, match=advice) as caught:
        rpc._call(refuse, None, 1.0)
    assert type(caught.value) is error
