"""The server of the client's tests: its REST answers and errors are those of the stock server."""

import gzip
import http.client
import json
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from tests.serving.server import Server, main, serve


def ask(server: Server, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, str]:
    """Returns status and body; `body` is sent as JSON unless it is bytes."""
    host, port = server.rest.split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=30)
    try:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        connection.request(method, path, data, headers)
        response = connection.getresponse()
        return response.status, response.read().decode("utf-8", "replace")
    finally:
        connection.close()


PREDICT = "/v1/models/toy:predict"


@pytest.mark.parametrize(
    ("path", "body", "answer"),
    [
        # Two outputs are named, a single output is not; "_bytes" asks for base64.
        (PREDICT, {"instances": ["a b"]}, {"predictions": [{"outputs": "b a!", "scores": -0.25}]}),
        (PREDICT, {"instances": [{"inputs": "a b"}]}, {"predictions": [{"outputs": "b a!", "scores": -0.25}]}),
        (PREDICT, {"inputs": ["a b"]}, {"outputs": {"outputs": ["b a!"], "scores": [-0.25]}}),
        (PREDICT, {"inputs": {"inputs": ["a b"]}}, {"outputs": {"outputs": ["b a!"], "scores": [-0.25]}}),
        (PREDICT, {"inputs": []}, {"outputs": {"outputs": [], "scores": []}}),
        (PREDICT, {"inputs": [{"b64": "YSBi"}], "signature_name": "one_output"}, {"outputs": ["b a!"]}),
        (PREDICT, {"instances": ["a b"], "signature_name": "one_output"}, {"predictions": ["b a!"]}),
        (PREDICT, {"instances": ["a b"], "signature_name": "coded"}, {"predictions": [{"b64": "YiBhIQ=="}]}),
        (PREDICT, {"instances": ["😀\x00 ü"]}, {"predictions": [{"outputs": "ü 😀\x00!", "scores": -0.25}]}),
        (
            "/v1/models/toy/versions/1:predict",
            {"inputs": ["a b"], "signature_name": "one_output"},
            {"outputs": ["b a"]},
        ),
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
    assert ask(server, "POST", path, gzip.compress(json.dumps(body).encode()), **{"Content-Encoding": "gzip"})[0] == 200


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"),
    [
        ("POST", "/v1/models/none:predict", {"inputs": ["a"]}, 404, "Servable not found for request: Latest(none)"),
        (
            "POST",
            "/v1/models/toy/versions/7:predict",
            {"inputs": ["a"]},
            404,
            "not found for request: Specific(toy, 7)",
        ),
        (
            "POST",
            "/v1/models/toy/labels/new:predict",
            {"inputs": ["a"]},
            400,
            "Unrecognized servable version label: new",
        ),
        (
            "POST",
            PREDICT,
            {"signature_name": "nope", "inputs": ["a"]},
            400,
            'Serving signature name: "nope" not found in signature def',
        ),
        (
            "POST",
            PREDICT,
            {"instances": [3]},
            400,
            "Failed to process element: 0 of 'instances' list. Error: INVALID_ARGUMENT: JSON Value: 3 Type: Number is "
            "not of expected type: string",
        ),
        ("POST", PREDICT, b'{"instances": [a]}', 400, "JSON Parse error: "),
        ("POST", PREDICT, b"[1]", 400, "Is not object"),
        ("POST", PREDICT, {"instances": []}, 400, "No values in 'instances' array"),
        ("POST", PREDICT, {}, 400, "Missing 'inputs' or 'instances' key"),
        ("POST", PREDICT, {"inputs": ["a"], "instances": ["a"]}, 400, "expecting only one of"),
        ("POST", PREDICT, {"inputs": [{"b64": "_-8="}]}, 400, "Unable to base64 decode"),
        ("POST", PREDICT, {"inputs": [["a"], "b"]}, 400, "unexpected size"),
        ("POST", PREDICT, {"inputs": ["\ud800"]}, 400, "surrogate pair in string is invalid"),
        ("POST", PREDICT, {"instances": ["a", {"inputs": "b"}]}, 400, "Expecting value/list"),
        (
            "POST",
            PREDICT,
            {"signature_name": "score", "instances": ["a"]},
            400,
            "instances is a plain list, but expecting list of objects as multiple input tensors required as per "
            "tensorinfo_map",
        ),
        ("POST", PREDICT, {"signature_name": "score", "inputs": ["a"]}, 400, "inputs is a plain value/list"),
        (
            "POST",
            PREDICT,
            {"signature_name": "score", "inputs": {"inputs": ["a"]}},
            400,
            "Missing named input: targets in 'inputs' object.",
        ),
        (
            "POST",
            PREDICT,
            {"signature_name": "uneven", "instances": ["a"]},
            400,
            "has inconsistent batch size: 1 expecting: 3",
        ),
        ("POST", PREDICT, {"inputs": "hello"}, 400, "[] is not compatible with expected shape [?]"),
        ("POST", PREDICT, {"inputs": ["x" * 1001]}, 400, "assertion failed: [too long]"),
        ("PUT", PREDICT, {}, 400, "Malformed request: PUT /v1/models/toy:predict"),
        ("GET", PREDICT, None, 400, "Malformed request: GET"),
        ("POST", "/v1/models/toy:nonsense", {}, 400, "Malformed request: POST"),
        ("GET", "/v1/models", None, 400, "Missing model name"),
        ("GET", "/v1/models/none", None, 404, "Could not find any versions of model none"),
        ("GET", "/v1/models/toy/versions/7", None, 404, "Could not find version 7 of model toy"),
    ],
)
def test_errors(server: Server, method: str, path: str, body: Any, status: int, words: str) -> None:
    got, text = ask(server, method, path, body)
    assert got == status
    assert words in json.loads(text)["error"]


def test_a_path_outside_the_api_gives_html(server: Server) -> None:
    status, text = ask(server, "GET", "/")
    assert status == 404
    assert "<html>" in text


def test_nan_is_bare_and_bytes_are_not_checked(server: Server) -> None:
    assert '"scores": NaN' in " ".join(ask(server, "POST", PREDICT, {"instances": ["not a number"]})[1].split())
    assert "\ufffd" in ask(server, "POST", PREDICT, {"instances": ["not utf-8"]})[1]


def test_status_and_metadata(server: Server) -> None:
    ok = {"error_code": "OK", "error_message": ""}
    versions = [{"version": str(n), "state": "AVAILABLE", "status": ok} for n in (1, 2)]
    for path, expected in (("", versions), ("/versions/2", versions[1:]), ("/labels/stable", versions)):
        status, text = ask(server, "GET", f"/v1/models/toy{path}")
        assert (status, json.loads(text)) == (200, {"model_version_status": expected})
    status, text = ask(server, "GET", "/v1/models/toy/metadata")
    signatures = json.loads(text)["metadata"]["signature_def"]["signature_def"]
    assert signatures["serving_default"]["inputs"]["inputs"]["tensor_shape"]["dim"] == [{"size": "-1", "name": ""}]


@pytest.mark.commit
def test_a_request_that_takes_too_long_is_cut_off(toy_base: Path) -> None:
    with serve(toy_base, "toy", rest_timeout=1.0) as server:
        status, text = ask(server, "POST", PREDICT, {"instances": ["endless"]})
    assert status == 504
    assert "Timed out" in json.loads(text)["error"]


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


class MustCompile(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None], name="inputs")], jit_compile=True, autograph=False)
    def serving_default(self, inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"outputs": inputs + 1}


def test_a_model_that_must_be_compiled_is_refused(tmp_path: Path) -> None:
    module = MustCompile()
    tf.saved_model.save(module, str(tmp_path / "1"), signatures=module.serving_default)
    with serve(tmp_path, "toy") as server:
        status, text = ask(server, "POST", PREDICT, {"instances": [1.0]})
    assert (status, json.loads(text)) == (500, {"error": "XLA compilation disabled"})


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


@pytest.mark.parametrize(
    ("flags", "words"),
    [(["--base=none"], "No such file"), (["--base=.", "--label=stable"], "'stable' is not of the form NAME=VERSION")],
)
def test_wrong_flags(
    flags: list[str], words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["server", "--name=toy", *flags])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert words in capsys.readouterr().err
