"""The client and a server with TLS; the test makes the certificate."""

import os
import shutil
import ssl
import subprocess
import threading
from pathlib import Path

import grpc
import pytest

from t2t_lite.client import errors
from t2t_lite.client.client import ServerTranslator
from tests.serving import grpc_front, rest_front
from tests.serving.served_model import ServedModel


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
        if protocol == "rest":  # gRPC reads its roots once in a process
            with (
                ServerTranslator(f"https://127.0.0.1:{port}", "toy", protocol) as stranger,
                pytest.raises(errors.NoAnswerError, match="certificate verify failed"),
            ):
                stranger.translate(["a b"])
        monkeypatch.setenv("SSL_CERT_FILE", os.fspath(certificate))
        monkeypatch.setenv("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", os.fspath(certificate))
        with ServerTranslator(f"https://127.0.0.1:{port}", "toy", protocol) as translator:
            assert translator.translate(["a b"])[0][0].text == "b a!"
    finally:
        stop()
