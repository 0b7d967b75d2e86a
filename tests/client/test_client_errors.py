"""Refusals, invalid answers, wrong arguments: each gives a message and an exit status."""

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from t2t_lite.client.client import ServerTranslator
from t2t_lite.client.errors import BusyError, NoAnswerError, ServerError, UnknownModelError
from t2t_lite.errors import UsageError
from tests.serving import toy_model
from tests.serving.served_model import Fault
from tests.serving.server import Server, serve


@pytest.mark.parametrize(
    ("which", "lines", "nbest", "error", "message"),
    [
        ({"model": "none"}, ["a"], 1, UnknownModelError, r"'none' at .* answered 404: Servable not found for request"),
        (
            {"version": 7},
            ["a"],
            1,
            UnknownModelError,
            r"\(version 7\) at .* Specific\(toy, 7\). Check the model's name",
        ),
        ({"label": "new"}, ["a"], 1, UsageError, r"\(label 'new'\) .*version label: new. No version has that label"),
        (
            {},
            ["x" * 1001],
            1,
            UsageError,
            "400: too long. The model does not take this request",
        ),
        ({}, ["not utf-8"], 1, ServerError, "answered text that is not UTF-8"),
        ({"batch_size": 9}, ["a"] * 9, 1, UsageError, r"Task size 9 is larger .* Send fewer lines .*--batch_size"),
    ],
)
def test_refusals_of_the_running_model(
    server: Server, protocol: str, which: dict[str, Any], lines: list[str], nbest: int, error: type, message: str
) -> None:
    server.model.max_batch_size = 8
    with (
        ServerTranslator(server.address(protocol), **{"model": "toy", "protocol": protocol, **which}) as translator,
        pytest.raises(error, match=message) as caught,
    ):
        translator.translate(lines, nbest=nbest)
    assert type(caught.value) is error


# The words of TensorFlow Serving's batching session, whole.
FOREIGN_SHAPE = (
    "FAILED_PRECONDITION",
    "Tensors with name 'serving_default_inputs:0' from different tasks have different shapes and padding is turned off."
    "Set pad_variable_length_inputs to true, or ensure that all tensors with the same name have equal dimensions "
    "starting with the first dim.",
)
FOREIGN_TYPE = (
    "INTERNAL",
    "Tensor concat operation failed: INVALID_ARGUMENT: Cannot concatenate tensors that have different data types. Got "
    "int32 and string.",
)


def test_a_request_whose_time_ran_out_in_the_queue_is_not_asked_again(server: Server, protocol: str) -> None:
    words = "Run() timeout exceeded while waiting in batching queue"
    server.model.faults.append(Fault(code="RESOURCE_EXHAUSTED", message=words))
    with (
        ServerTranslator(server.address(protocol), "toy", protocol) as translator,
        pytest.raises(ServerError, match="answered 429: Run.* Its time ran out in the server's queue") as caught,
    ):
        translator.translate(["a"])
    assert type(caught.value) is ServerError
    assert len(server.model.requests) == 1


def test_grpc_on_the_rest_port_and_the_other_way_round(server: Server) -> None:
    for address, protocol, words in (
        (server.rest, "grpc", "does not speak gRPC. .* 8501 is REST's"),
        (server.grpc, "rest", "does not speak HTTP/1.1 .* 8500 is gRPC's"),
    ):
        with (
            ServerTranslator(address, "toy", protocol) as translator,
            pytest.raises(ServerError, match=words) as caught,
        ):
            translator.translate(["a"])
        assert type(caught.value) is ServerError  # not a subclass that is worth a retry


def test_a_model_without_the_signature(tmp_path: Path) -> None:
    toy_model.save(tmp_path, 1, signatures=("serving_default",))
    with serve(tmp_path, "toy") as server:
        for protocol in ("rest", "grpc"):
            with (
                ServerTranslator(server.address(protocol), "toy", protocol) as translator,
                pytest.raises(
                    UsageError, match='Serving .*"nbest" not found.* Export the model with nbest among --sig'
                ),
            ):
                translator.translate(["a"], nbest=2)


# Answers observed from the stock server, and its mapping of codes to HTTP status: code, words, error, advice.
@pytest.mark.commit
@pytest.mark.parametrize(
    ("code", "words", "error", "advice"),
    [
        ("INVALID_ARGUMENT", "Failed to process element: 0 of 'instances' list. Error: ...", UsageError, "exporter"),
        (
            "FAILED_PRECONDITION",
            'Serving signature key "nope" not found.',
            UsageError,
            "export it with t2t-lite-exporter",
        ),
        (
            "FAILED_PRECONDITION",
            'Serving signature key "attention" not found.',
            UsageError,
            "--signatures=nbest,score,attention",
        ),
        ("UNAUTHENTICATED", "x", ServerError, "credentials"),
        ("PERMISSION_DENIED", "x", ServerError, "does not let this client through"),
        ("NOT_FOUND", "Servable not found for request: Latest(none)", UnknownModelError, "name and version"),
        ("RESOURCE_EXHAUSTED", "x", BusyError, "--concurrency"),
        ("UNAVAILABLE", "The batch scheduling queue is full", BusyError, "--wait"),
        ("INTERNAL", "XLA compilation disabled", ServerError, "jit_compile"),
        (*FOREIGN_SHAPE, BusyError, "Another client's request has a wrong shape"),
        (*FOREIGN_TYPE, BusyError, "Another client's request has a wrong type"),
        ("UNKNOWN", "x", ServerError, "log"),
    ],
)
def test_every_code_has_a_sentence_and_an_exit_status(
    server: Server, protocol: str, code: str, words: str, error: type, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("t2t_lite.client.client._FIRST_DELAY", 0.001)
    server.model.faults.extend([Fault(code=code, message=words)] * 6)
    with ServerTranslator(server.address(protocol), "toy", protocol) as translator, pytest.raises(error) as caught:
        translator.translate(["a"])
    assert type(caught.value) is error
    assert caught.value.exit_status == (2 if issubclass(error, UsageError) else 1)
    assert words.rstrip(".") in str(caught.value)
    assert advice in str(caught.value)


@pytest.mark.commit
def test_the_time_limit_of_the_server(toy_base: Path) -> None:
    with (
        serve(toy_base, "toy", rest_timeout=1.0) as server,
        ServerTranslator(server.rest, "toy") as translator,
        pytest.raises(ServerError, match="504: Timed out.*--rest_api_timeout_in_ms.*--batch_size"),
    ):
        translator.translate(["endless"])


@pytest.mark.parametrize(
    ("fault", "error", "message"),
    [
        (Fault(drop=True), NoAnswerError, "closed the connection before its answer was whole"),
        (Fault(body=b"{}"), ServerError, "answered what is no prediction: '{}'"),
        (Fault(body=b"[" * 100_000), ServerError, r"answered what is no prediction: '\[\[.*\.\.\.'"),
        (Fault(body=b'{"outputs": {}}'), ServerError, "answers nothing instead of outputs and scores"),
        (Fault(body=b'{"outputs": {"outputs": ["a", "b"], "scores": [1, 2]}}'), ServerError, "each of 1 lines"),
        (Fault(body=b'{"outputs": {"outputs": [3], "scores": [1]}}'), ServerError, "wrong form: 3 is not text"),
        (Fault(body=b'{"outputs": {"outputs": ["a"], "scores": [null]}}'), ServerError, "wrong form"),
        (Fault(body=b'{"outputs": {"outputs": [[]], "scores": [[]]}}'), UsageError, "gives 0 outputs a line"),
        (Fault(body=b'{"outputs": ["\xff"]}'), ServerError, "not UTF-8"),
        (Fault(body=b'{"outputs": ["\\ud83d"]}'), ServerError, "not UTF-8"),
        (Fault(status=404, body=b"<h1>Not\n Found</h1>"), ServerError, "404 and not as .*'<h1>Not Found</h1>'.*8501"),
        (Fault(status=401, body=b"<html>"), ServerError, "401: Unauthorized. Something .* asks for credentials"),
        (Fault(status=413, body=b"<html>"), ServerError, "413: .* Too Large. Send fewer lines"),
        (Fault(status=502, body=b"<html>"), NoAnswerError, "502: Bad Gateway. See the server's log"),
        (Fault(status=400, body=b'{"error": "\xff\n\x01"}'), UsageError, "400: \ufffd \x01. The model"),
        (Fault(status=301, body=b"", headers=(("Location", "http://b/"),)), ServerError, "on to http://b/; redirects"),
        (
            Fault(body=b"{}", headers=(("Content-Length", "9"), ("Connection", "close"))),
            NoAnswerError,
            "before its answer",
        ),
    ],
)
def test_answers_that_are_none(server: Server, fault: Fault, error: type, message: str) -> None:
    server.model.faults.append(fault)
    with ServerTranslator(server.rest, "toy") as translator:
        with pytest.raises(error, match=message) as caught:
            translator.translate(["a b"])
        assert type(caught.value) is error
        assert translator.translate(["a b"])[0][0].text == "b a!"  # the client still works
    assert server.model.requests == [None, 1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"protocol": "grcp"}, "neither 'rest' nor 'grpc'. Did you mean 'grpc'?"),
        ({"batch_size": 0}, "batch_size=0 must be from 1 to 1,000,000"),
        ({"timeout": math.inf}, "timeout=inf must be above 0 and at most 1,000,000 seconds"),
        ({"model": "a/b"}, "cannot be the name of a model"),
        ({"label": "a:b"}, "cannot be the name of a label"),
        ({"version": 1, "label": "stable"}, "not both"),
        ({"version": 2**63}, "cannot be a version"),
        ({"server": "localhost"}, "names no port.*8501.*8500"),
        ({"server": "localhost:http"}, "not of the form host:port"),
        ({"server": "[::1:8501"}, "not of the form host:port"),
        ({"server": "http://localhost:8501/v1/models"}, "not of the form host:port"),
    ],
)
def test_wrong_arguments(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ServerTranslator(**{"server": "localhost:8501", "model": "toy", **arguments})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: t.translate("one string"), "not one string"),
        (lambda t: t.translate(["a"], nbest=0), "nbest=0 must be at least 1"),
        (lambda t: t.translate(["ok", "half \ud83d"]), r"'\\ud83d' in a line is not a character"),
    ],
)
def test_wrong_lines(server: Server, call: Callable[[ServerTranslator], None], message: str) -> None:
    with ServerTranslator(server.rest, "toy") as translator, pytest.raises(UsageError, match=message):
        call(translator)
    assert server.model.requests == []


def test_grpc_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(UsageError, match=r"pip install 't2t-lite\[grpc\]'"):
        ServerTranslator("localhost:8500", "toy", "grpc")
    ServerTranslator("localhost:8501", "toy", "rest").close()
