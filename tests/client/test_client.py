"""The client against real endpoints: its requests, the order of its answers, its retries."""

import itertools
import math
import random
import threading
import time
from collections.abc import Iterator

import pytest

from t2t_lite.client import client, errors
from t2t_lite.client.client import ServerTranslator
from t2t_lite.client.response import ServedHypothesis
from t2t_lite.errors import DataError, T2TError, UsageError
from tests.serving.served_model import Fault
from tests.serving.server import Server


@pytest.fixture
def translator(server: Server, protocol: str) -> Iterator[ServerTranslator]:
    with ServerTranslator(server.address(protocol), "toy", protocol, batch_size=3, concurrency=4) as translator:
        yield translator


@pytest.fixture
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_FIRST_DELAY", 0.001)


def texts(translator: ServerTranslator, lines: list[str]) -> list[str]:
    return [hypotheses[0].text for hypotheses in translator.translate(lines)]


def test_lines_come_back_in_order_and_blank_ones_are_not_sent(server: Server, translator: ServerTranslator) -> None:
    lines = ["a b c", "", "größer 😀", " \t\u3000", "x\x00y z", "", "", "", "one\u2028line"]
    expected = ["c b a!", "", "😀 größer!", "", "z x\x00y!", "", "", "", "one\u2028line!"]
    assert texts(translator, lines) == expected
    assert sorted(server.model.requests) == [1, 1, 2]  # batches of three lines, blank lines included
    assert translator.translate([]) == []
    assert translator.translate(["", " "], nbest=2) == [[ServedHypothesis("", 0.0)] * 2] * 2
    assert len(server.model.requests) == 3


@pytest.mark.commit
def test_scores_and_the_n_best(translator: ServerTranslator) -> None:
    assert translator.translate(["a b", ""]) == [[ServedHypothesis("b a!", -0.25)], [ServedHypothesis("", 0.0)]]
    two = [ServedHypothesis("b a! 1", -0.25), ServedHypothesis("b a! 2", -1.25)]
    assert translator.translate(["a b"], nbest=2) == [two]
    ((best,),) = translator.translate(["not a number"])
    assert math.isnan(best.score)
    with pytest.raises(UsageError, match="gives 3 outputs a line, its beam size; 4 are asked for"):
        translator.translate(["a b"], nbest=4)


@pytest.mark.parametrize(
    ("which", "mark"), [({}, "!"), ({"version": 1}, ""), ({"version": 2}, "!"), ({"label": "stable"}, "")]
)
def test_version_and_label(server: Server, protocol: str, which: dict[str, int | str], mark: str) -> None:
    with ServerTranslator(server.address(protocol), "toy", protocol, **which) as translator:
        translator.wait(10)
        assert texts(translator, ["a b"]) == [f"b a{mark}"]


def test_a_name_of_any_characters(server: Server, protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server.model, "name", "ü 100%?")
    monkeypatch.setattr(server.model, "labels", {"a b": 1})
    with ServerTranslator(server.address(protocol), "ü 100%?", protocol, label="a b") as translator:
        translator.wait(10)
        assert texts(translator, ["a b"]) == ["b a"]


@pytest.mark.commit
def test_answers_may_be_large(server: Server, protocol: str) -> None:
    """Answers above 4 MB, gRPC's own limit, arrive."""
    lines = [f"{i:0999d}" for i in range(2000)]
    with ServerTranslator(server.address(protocol), "toy", protocol, batch_size=2000) as translator:
        answers = translator.translate(lines, nbest=3)
    assert [best.text for best, _, _ in answers] == [f"{line}! 1" for line in lines]


@pytest.mark.commit
def test_order_is_kept_whatever_the_delays(server: Server, translator: ServerTranslator) -> None:
    drawn = random.Random(1)
    server.model.delay = lambda: drawn.random() / 20
    lines = [f"line {i}" if i % 7 else "" for i in range(150)]
    assert texts(translator, lines) == [f"{i} line!" if i % 7 else "" for i in range(150)]
    assert 1 < server.model.most_in_flight <= 4
    assert max(rows for rows in server.model.requests if rows is not None) <= 3


@pytest.mark.commit
def test_many_lines_are_read_only_as_they_are_needed(server: Server, protocol: str) -> None:
    read = 0

    def lines() -> Iterator[str]:
        nonlocal read
        for read in range(1, 10_001):
            yield f"{read} is"

    batch, concurrency = 200, 3
    ahead = []
    with ServerTranslator(
        server.address(protocol), "toy", protocol, batch_size=batch, concurrency=concurrency
    ) as translator:
        for number, (line, (best,)) in enumerate(translator.stream(lines()), start=1):
            assert (line, best.text) == (f"{number} is", f"is {number}!")
            ahead.append(read - number)
    assert number == 10_000
    assert max(ahead) < 2 * concurrency * batch


def test_lines_before_one_that_cannot_be_read_are_translated(server: Server) -> None:
    def lines() -> Iterator[str]:
        yield from (f"{number} is" for number in range(10))
        raise DataError("line 11 is none")

    with ServerTranslator(server.rest, "toy", batch_size=3) as translator:
        answers = translator.stream(lines())
        assert [line for line, _ in itertools.islice(answers, 10)] == [f"{number} is" for number in range(10)]
        with pytest.raises(DataError, match="line 11"):
            next(answers)


BUSY = Fault(code="UNAVAILABLE", message="full")


@pytest.mark.parametrize(
    ("faults", "requests", "error"),
    [
        ([BUSY] * 2, 3, None),
        ([BUSY, Fault(code="RESOURCE_EXHAUSTED"), Fault(code="INTERNAL")], 3, errors.ServerError),
        ([BUSY] * 9, 6, errors.BusyError),
        ([Fault(code="INVALID_ARGUMENT")], 1, UsageError),
        ([Fault(code="NOT_FOUND")], 1, errors.UnknownModelError),
        ([Fault(code="INTERNAL")], 1, errors.ServerError),
    ],
)
@pytest.mark.usefixtures("quick_retries")
def test_only_a_busy_server_is_asked_again(
    server: Server, translator: ServerTranslator, faults: list[Fault], requests: int, error: type[T2TError] | None
) -> None:
    server.model.faults.extend(faults)
    if error is None:
        assert texts(translator, ["a b"]) == ["b a!"]
    else:
        with pytest.raises(error) as caught:
            translator.translate(["a b"])
        assert type(caught.value) is error
        assert ("(Tried 6 times.)" in str(caught.value)) is (error is errors.BusyError)
    assert len(server.model.requests) == requests


def test_pauses_grow(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.model.faults.extend([BUSY] * 5)
    pauses: list[float] = []
    with ServerTranslator(server.rest, "toy") as translator:
        monkeypatch.setattr(translator._closed, "wait", lambda seconds: pauses.append(seconds))
        translator.translate(["a b"])
    assert len(pauses) == 5
    for pause, middle in zip(pauses, (0.25, 0.5, 1.0, 2.0, 4.0), strict=True):
        assert middle / 2 <= pause <= middle * 1.5


def test_a_request_has_a_deadline(server: Server, protocol: str) -> None:
    server.model.faults.append(Fault(seconds=5))
    start = time.monotonic()
    with (
        ServerTranslator(server.address(protocol), "toy", protocol, timeout=0.2) as translator,
        pytest.raises(errors.NoAnswerError, match=r"gave no answer within 0.2 s.*--timeout"),
    ):
        translator.translate(["a b"])
    assert time.monotonic() - start < 5


def test_threads_may_share_a_translator(server: Server, translator: ServerTranslator) -> None:
    results: dict[int, list[str]] = {}

    def ask(i: int) -> None:
        results[i] = texts(translator, [f"{i} {j}" for j in range(7)])

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {i: [f"{j} {i}!" for j in range(7)] for i in range(8)}
    assert server.model.most_in_flight <= 4
