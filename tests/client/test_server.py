"""The server of the client's tests: its REST answers and errors are those of the stock server."""

import http.client
import json
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.serving.server import Server, main, serve


def ask(server: Server, method: str, path: str, body: Any = None) -> tuple[int, str]:
    """Returns status and body; `body` is sent as JSON unless it is bytes."""
    host, port = server.rest.split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=30)
    try:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        connection.request(method, path, data)
        response = connection.getresponse()
        return response.status, response.read().decode("utf-8", "replace")
    finally:
        connection.close()


PREDICT = "/v1/models/toy:predict"


@pytest.mark.parametrize(
    ("path", "body", "answer"),
    [
        # Two outputs are named, a single output is not.
        (PREDICT, {"instances": ["a b"]}, {"predictions": [{"outputs": "b a!", "scores": -0.25}]}),
        (PREDICT, {"instances": [{"inputs": "a b"}]}, {"predictions": [{"outputs": "b a!", "scores": -0.25}]}),
        (PREDICT, {"inputs": ["a b"]}, {"outputs": {"outputs": ["b a!"], "scores": [-0.25]}}),
        (PREDICT, {"instances": ["a b"], "signature_name": "one_output"}, {"predictions": ["b a!"]}),
        (PREDICT, {"instances": ["😀\x00 ü"]}, {"predictions": [{"outputs": "ü 😀\x00!", "scores": -0.25}]}),
        (
            "/V1/Models/toy/labels/stable:predict",
            {"inputs": ["a b"], "signature_name": "one_output"},
            {"outputs": ["b a"]},
        ),
        (
            PREDICT,
            {"inputs": {"inputs": ["ab"], "targets": ["c"], "more": 1}, "signature_name": "score"},
            {"outputs": {"log_probabilities": [-3.0], "tokens": [3]}},
        ),
    ],
)
def test_answers(server: Server, path: str, body: Any, answer: Any) -> None:
    status, text = ask(server, "POST", path, body)
    assert (status, json.loads(text)) == (200, answer)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"),
    [
        ("POST", "/v1/models/none:predict", {"inputs": ["a"]}, 404, "Servable not found for request: Latest(none)"),
        ("POST", "/v1/models/toy/labels/new:predict", {"inputs": ["a"]}, 400, "Unrecognized servable version label"),
        ("POST", PREDICT, {"signature_name": "nope", "inputs": ["a"]}, 400, '"nope" not found in signature def'),
        ("POST", PREDICT, b'{"instances": [a]}', 400, "JSON Parse error: "),
        ("POST", PREDICT, {"instances": []}, 400, "No values in 'instances' array"),
        ("POST", PREDICT, {}, 400, "Missing 'inputs' or 'instances' key"),
        ("POST", PREDICT, {"inputs": [["a"], "b"]}, 400, "unexpected size"),
        ("POST", PREDICT, {"inputs": ["\ud800"]}, 400, "surrogate pair in string is invalid"),
        ("POST", PREDICT, {"signature_name": "score", "instances": ["a"]}, 400, "instances is a plain list, but"),
        ("POST", PREDICT, {"inputs": "hello"}, 400, "[] is not compatible with expected shape [?]"),
        ("GET", PREDICT, None, 400, "Malformed request: GET"),
        ("GET", "/v1/models/none", None, 404, "Could not find any versions of model none"),
        ("GET", "/v1/models/toy/versions/7", None, 404, "Could not find version 7 of model toy"),
    ],
)
def test_errors(server: Server, method: str, path: str, body: Any, status: int, words: str) -> None:
    got, text = ask(server, method, path, body)
    assert got == status
    assert words in json.loads(text)["error"]


def test_nan_is_bare_and_bytes_are_not_checked(server: Server) -> None:
    assert '"scores": NaN' in " ".join(ask(server, "POST", PREDICT, {"instances": ["not a number"]})[1].split())
    assert "\ufffd" in ask(server, "POST", PREDICT, {"instances": ["not utf-8"]})[1]


def test_versions_come_and_go_as_folders_do(toy_base: Path, tmp_path: Path) -> None:
    def states() -> Iterator[tuple[str, str]]:
        for entry in json.loads(ask(server, "GET", "/v1/models/toy")[1])["model_version_status"]:
            yield entry["version"], entry["state"]

    (tmp_path / "00000001").symlink_to(toy_base / "1")
    (tmp_path / "tmp-9").mkdir()
    with serve(tmp_path, "toy") as server:
        assert list(states()) == [("1", "AVAILABLE")]
        (tmp_path / "2").symlink_to(toy_base / "2")
        server.model.refresh()
        assert list(states()) == [("1", "END"), ("2", "AVAILABLE")]


def test_alone_it_says_where_it_is(
    toy_base: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = ""

    def visit(seconds: float) -> None:
        nonlocal said
        if said:
            raise KeyboardInterrupt
        said = capsys.readouterr().out
        rest = re.fullmatch(r"REST (127.0.0.1:\d+), gRPC 127.0.0.1:\d+; end with Ctrl-C\n", said)[1]
        # The label selects version 1, although there is a newer one.
        with urllib.request.urlopen(f"http://{rest}/v1/models/toy/labels/stable/metadata", timeout=30) as answer:
            assert "one_output" in json.load(answer)["metadata"]["signature_def"]["signature_def"]

    monkeypatch.setattr("time.sleep", visit)
    flags = ["--name=toy", "--rest_api_port=0", "--port=0", "--label=stable=1"]
    monkeypatch.setattr("sys.argv", ["server", f"--base={toy_base}", *flags])
    main()
