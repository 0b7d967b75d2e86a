"""The requests of the page: their answers, and the clients that are refused."""

import json
import logging
import re
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from t2t_lite.client.errors import BusyError, NoAnswerError
from t2t_lite.decoding.translate import Translator
from t2t_lite.demo.app import MAX_CHARACTERS, check_installed, make_app
from t2t_lite.demo.backends import Run
from t2t_lite.errors import DataError, UsageError
from tests.demo.conftest import CARD, LINES

pytestmark = pytest.mark.commit

HOST = "127.0.0.1"


@pytest.fixture(scope="module")
def run(translator: Translator) -> Run:
    return Run(translator, CARD)


@pytest.fixture(scope="module")
def client(run: Run) -> Any:
    return make_app(run, HOST).test_client()


class _Model(Run):
    """A model that first calls a function of the test."""

    def __init__(self, run: Run, before: Any) -> None:
        self.card, self._lines, self._before = run.card, run._lines, before

    def translate(self, lines: Sequence[str]) -> Any:
        self._before(lines)
        return super().translate(lines)


def test_translations_of_each_line(client: Any, run: Run) -> None:
    text = f"{LINES[0]}\n\n{LINES[1]}"
    answer = client.post("/translate", json={"text": text})
    assert answer.status_code == 200
    expected = [[(h.text, h.score) for h in outputs] for outputs in run.translate(text.split("\n"))]
    assert [[(o["text"], o["score"]) for o in outputs] for outputs in answer.json["outputs"]] == [
        [(words, pytest.approx(score, abs=1e-5)) for words, score in outputs] for outputs in expected
    ]
    assert answer.json["seconds"] > 0


@pytest.mark.parametrize("text", ["", " \t", "\n\u3000\r\n"])
def test_blank_lines_have_empty_translations(client: Any, text: str) -> None:
    outputs = client.post("/translate", json={"text": text}).json["outputs"]
    assert [{o["text"] for o in line} for line in outputs] == [{""}] * len(text.split("\n"))


def test_attention_and_card(client: Any, run: Run) -> None:
    answer = client.post("/attention", json={"text": LINES[1]})
    assert answer.status_code == 200
    assert answer.json == json.loads(json.dumps(run.attention(LINES[1])))
    card = client.get("/card").json["card"]
    assert card == json.loads(json.dumps(CARD))
    assert list(card) == list(CARD)  # the card's order is kept


@pytest.mark.parametrize(
    ("settings", "show"),
    [
        ({}, None),
        ({"alignment_layer": 1}, {"heads": [1], "layer": 1}),
        ({"guided_alignment": 0.1}, {"heads": [1]}),  # of the last layer, which is shown anyway
    ],
)
def test_the_head_that_aligns_is_shown_first(
    translator: Translator, settings: dict[str, Any], show: dict[str, Any] | None
) -> None:
    run = Run(translator, {**CARD, "hparams": {**CARD["hparams"], **settings}})  # type: ignore[dict-item]
    client = make_app(run, HOST).test_client()
    assert client.post("/attention", json={"text": LINES[0]}).json.get("show") == show


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("translate", {"text": "a" * (MAX_CHARACTERS + 1)}, 400, "2,001 characters; at most 2,000"),
        ("translate", {"text": "a " * 999}, 400, "A line of .* pieces is too long"),
        ("translate", {"text": "\ud800"}, 400, "lone surrogate"),
        ("translate", {"text": 1}, 400, "Send a JSON object"),
        ("translate", ["a"], 400, "Send a JSON object"),
        ("translate", b"{", 400, "could not understand"),
        ("translate", b'{"text": "\xff"}', 400, "could not understand"),
        ("translate", b'{"text": 1' + b"0" * 5000 + b"}", 400, "could not understand"),
        ("translate", b"[" * 100_000, 400, "nested too deeply"),
        ("translate", b'{"text":' * 100_000, 400, "nested too deeply"),
        ("attention", {"text": "a\nb"}, 400, "one line that is not blank"),
        ("attention", {"text": "a " * 140}, 400, "attention is shown for at most 120"),
        ("other", {}, 404, "not found"),
    ],
)
def test_bad_requests_get_a_sentence(
    client: Any, path: str, body: Any, status: int, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = client.post(f"/{path}", data=data, content_type="application/json")
    assert answer.status_code == status
    assert answer.content_type == "application/json"
    assert re.search(message, answer.json["error"])
    assert caplog.text == ""  # no traceback in the terminal


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": "http://localhost:8600"}, 200),
        ({"Host": "127.0.0.1:9", "Origin": "http://127.0.0.1:9"}, 200),  # a port that ssh forwards
        ({"Host": "[::1]:8600", "Origin": "http://[::1]:8600"}, 200),
        ({"Host": "Localhost:8600"}, 200),
        ({"Host": socket.gethostname()}, 200),
        ({"Host": "rebound.example:8600", "Origin": "http://rebound.example:8600"}, 403),
        ({"Host": "localhost@rebound.example"}, 403),
        ({"Host": "[::1"}, 403),
        ({"Host": ""}, 403),
        ({"Origin": "http://rebound.example"}, 403),
        ({"Origin": "http://localhost:8601"}, 403),
        ({"Content-Type": "text/plain"}, 415),
    ],
)
def test_strangers_are_refused(client: Any, headers: Mapping[str, str], status: int) -> None:
    standard = {"Host": "localhost:8600", "Content-Type": "application/json"}
    answer = client.post("/translate", data=b'{"text": ""}', headers={**standard, **headers})
    assert answer.status_code == status
    assert ("error" in answer.json) == (status != 200)
    if "Host" in headers:  # the page itself as well
        assert client.get("/", headers=headers).status_code == status


def test_a_name_that_the_page_is_bound_to(run: Run) -> None:
    app = make_app(run, "Example.org")
    assert app.test_client().get("/", headers={"Host": "example.org:80"}).status_code == 200


def test_the_page_may_load_nothing_but_its_own_files(client: Any) -> None:
    for path, kind in (
        ("/", "text/html; charset=utf-8"),
        ("/demo.css", "text/css; charset=utf-8"),
        ("/demo.js", "text/javascript; charset=utf-8"),
        ("/attention.css", "text/css; charset=utf-8"),
        ("/attention.js", "text/javascript; charset=utf-8"),
        ("/none", "application/json"),
    ):
        answer = client.get(path)
        assert answer.content_type == kind
        assert answer.headers["Content-Security-Policy"] == (
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; "
            "form-action 'none'; frame-ancestors 'none'"
        )
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "://" not in answer.text.replace("http://www.w3.org/2000/svg", "")  # the SVG namespace is only a name
        assert "innerHTML" not in answer.text
    assert "drawAttention = " in client.get("/attention.js").text


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (UsageError("Too wide."), 400, "Too wide."),
        (DataError("It is gone."), 500, "It is gone."),
        (NoAnswerError("No server."), 502, "No server."),
        (BusyError("Try later."), 503, "Try later."),
        (RuntimeError("secret"), 500, "The model failed (RuntimeError); the terminal tells more."),
    ],
)
def test_errors_of_the_model(
    run: Run, error: Exception, status: int, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(lines: Sequence[str]) -> None:
        raise error

    client = make_app(_Model(run, fail), HOST).test_client()
    with caplog.at_level(logging.ERROR):
        answer = client.post("/translate", json={"text": "a"})
    assert (answer.status_code, answer.json) == (status, {"error": message})
    assert ("secret" in caplog.text) == isinstance(error, RuntimeError)


def test_one_request_at_a_time_reaches_the_model(run: Run) -> None:
    inside: list[int] = []
    most = []

    def watch(lines: Sequence[str]) -> None:
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.02)
        inside.pop()

    app = make_app(_Model(run, watch), HOST)
    threads = [
        threading.Thread(target=lambda: app.test_client().post("/translate", json={"text": ""})) for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 5


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    check_installed()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "waitress" else object())
    with pytest.raises(UsageError, match=r"needs waitress, which is not installed: pip install 't2t-lite\[demo\]'"):
        check_installed()
