"""The gate of the serving example: which requests it passes to a server, and which it refuses itself."""

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.client import conftest as serving
from tests.serving.server import Server

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
        ("[]", 'either "inputs" or "instances"'),
        ("{}", 'either "inputs" or "instances"'),
        ('{"inputs": ["a"], "instances": ["a"]}', 'either "inputs" or "instances"'),
        ('{"inputs": [["a"]]}', 'holds texts only, not ["a"]'),
        ('{"inputs": "a"}', "a list of 1 to 32 texts"),
        ('{"inputs": []}', "a list of 1 to 32 texts"),
        (json.dumps({"inputs": ["a"] * 33}), "a list of 1 to 32 texts"),
        ('{"inputs": [{"b64": "YQ=="}]}', "holds texts only"),
        ('{"instances": [3]}', "holds texts only, not 3"),
        ('{"inputs": ["\\ud800"]}', "half a character"),
        (json.dumps({"inputs": ["x" * 8001]}), "8,001 bytes; at most 8,000"),
        ('{"signature_name": "attention", "inputs": ["a"]}', "is one of serving_default, nbest"),
        ('{"signature_name": ["nbest"], "inputs": ["a"]}', "is one of serving_default, nbest"),
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


def test_a_body_that_is_too_large_is_refused_in_a_sentence(client: Any, server: Server) -> None:
    answer = client.post(PATH, json={"inputs": ["x" * 16_000] * 33})
    assert (answer.status_code, answer.get_json()["error"][-1]) == (413, ".")
    assert server.model.requests == []


def test_what_the_server_answers_comes_back_as_it_is(client: Any) -> None:
    answer = client.post(PATH.replace("stable", "new"), json={"inputs": ["a"]})
    assert (answer.status_code, answer.get_json()["error"]) == (400, "Unrecognized servable version label: new")


def test_a_server_that_is_gone_is_said() -> None:
    with gate.make_app("http://127.0.0.1:9", "toy").test_client() as client:
        answer = client.post(PATH, json={"inputs": ["a"]})
    assert (answer.status_code, answer.get_json()) == (503, {"error": "The server cannot be reached."})


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
