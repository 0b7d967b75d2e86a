"""Translation by a server: lines in batches, several requests at a time, answers in the lines' order."""

from __future__ import annotations

import collections
import concurrent.futures
import itertools
import random
import threading
import time
from collections.abc import Iterable, Iterator, Sequence

from t2t_lite.client.endpoint import Target
from t2t_lite.client.errors import BusyError, NoAnswerError, ServerError, UnknownModelError
from t2t_lite.client.grpc import Rpc
from t2t_lite.client.response import ServedHypothesis, hypotheses
from t2t_lite.client.rest import Rest
from t2t_lite.errors import UsageError, check_characters, did_you_mean

_MAX = 1_000_000  # far above any use, and below the limits of sockets and iterators
_ATTEMPTS = 6
_FIRST_DELAY = 0.25  # seconds before the second attempt, twice that before the third, ...: about 8 s in all
_POLL_SECONDS = (0.1, 2.0)  # pauses between checks of a server that is not ready: first, longest


PROTOCOLS: dict[str, type[Rest] | type[Rpc]] = {"rest": Rest, "grpc": Rpc}


def _until_error(lines: Iterable[str], errors: list[Exception]) -> Iterator[str]:
    """Yields lines; ends where reading them raises an error, and keeps the error."""
    try:
        yield from lines
    except Exception as error:
        errors.append(error)


class ServerTranslator:
    """Translates lines with a model that TensorFlow Serving serves; threads may share it.

        with ServerTranslator("localhost:8501", "ende") as translator:
            print(translator.translate(["A dog runs."])[0][0].text)

    Args:
        server: "host:port", or "https://host:port" for TLS.
        model: the name that the server gives it.
        protocol: "rest", or "grpc" (the extra t2t-lite[grpc]).
        version, label: which version; default: the newest.
        batch_size: lines in a request, at most.
        concurrency: requests at a time, at most.
        timeout: seconds that a request may take. One that finds the server busy (429, 503, UNAVAILABLE) is sent again,
            with growing pauses.

    Raises:
        UsageError: invalid arguments, or gRPC without its packages. The methods raise T2TErrors that say what the
            server answered (`errors.failure`).
    """

    def __init__(
        self,
        server: str,
        model: str,
        protocol: str = "rest",
        *,
        version: int | None = None,
        label: str | None = None,
        batch_size: int = 32,
        concurrency: int = 4,
        timeout: float = 60.0,
    ) -> None:
        if protocol not in PROTOCOLS:
            raise UsageError(f"{protocol!r} is neither 'rest' nor 'grpc'.{did_you_mean(protocol, PROTOCOLS)}")
        for name, value in (("batch_size", batch_size), ("concurrency", concurrency)):
            if not 1 <= value <= _MAX:
                raise UsageError(f"{name}={value} must be from 1 to {_MAX:,}.")
        if not 0 < timeout <= _MAX:
            raise UsageError(f"timeout={timeout:g} must be above 0 and at most {_MAX:,} seconds.")
        self._target = Target.parse(server, model, version, label)
        self._batch_size, self._concurrency, self._timeout = batch_size, concurrency, timeout
        self._connection = PROTOCOLS[protocol](self._target)
        self._pool = concurrent.futures.ThreadPoolExecutor(concurrency, "t2t-lite-query")
        self._closed = threading.Event()

    def __enter__(self) -> ServerTranslator:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends all requests, also those under way."""
        self._closed.set()
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._connection.close()

    def wait(self, seconds: float) -> None:
        """Returns as soon as the server says that the model is ready (AVAILABLE).

        Raises:
            T2TError: the model is not ready after `seconds`; the message is from the last check.
        """
        deadline = time.monotonic() + seconds
        pause, longest = _POLL_SECONDS
        while True:
            trouble = self._trouble()
            if trouble is None:
                return
            left = deadline - time.monotonic()
            if left <= 0:
                raise type(trouble)(f"{trouble} (Waited for {seconds:g} s.)")
            self._closed.wait(min(pause, left))
            pause = min(2 * pause, longest)

    def translate(self, lines: Iterable[str], *, nbest: int = 1) -> list[list[ServedHypothesis]]:
        """Returns the `nbest` best outputs of each line, in the lines' order; blank lines give empty ones.

        Args:
            nbest: at most the beam size that the model was exported with.
        """
        return [best for _, best in self.stream(lines, nbest=nbest)]

    def stream(self, lines: Iterable[str], *, nbest: int = 1) -> Iterator[tuple[str, list[ServedHypothesis]]]:
        """Yields (line, its hypotheses) in order, as answers arrive; otherwise like `translate`.

        It reads ahead at most the lines of twice as many requests as may be under way. An error of `lines` itself is
        raised after the hypotheses of all lines before it.
        """
        if isinstance(lines, str):
            raise UsageError("Give a list of lines, not one string.")
        if nbest < 1:
            raise UsageError(f"nbest={nbest} must be at least 1.")
        waiting: collections.deque[tuple[list[str], concurrent.futures.Future[list[list[ServedHypothesis]]]]]
        waiting = collections.deque()
        errors: list[Exception] = []
        left = _until_error(lines, errors)
        try:
            while batch := list(itertools.islice(left, self._batch_size)):
                waiting.append((batch, self._pool.submit(self._answer, batch, nbest)))
                # With one request at a time, its answer comes before more lines are read, as a conversation needs.
                while waiting and (len(waiting) >= 2 * self._concurrency - 1 or waiting[0][1].done()):
                    done, answer = waiting.popleft()
                    yield from zip(done, answer.result(), strict=True)
            for done, answer in waiting:
                yield from zip(done, answer.result(), strict=True)
            if errors:
                raise errors[0]
        finally:
            for _, answer in waiting:
                answer.cancel()

    def _answer(self, lines: Sequence[str], nbest: int) -> list[list[ServedHypothesis]]:
        """Returns the hypotheses of a batch; blank lines are not sent."""
        texts = [line for line in lines if line.strip()]
        answered = iter(self._ask(texts, nbest) if texts else [])
        return [next(answered) if line.strip() else [ServedHypothesis("", 0.0)] * nbest for line in lines]

    def _ask(self, texts: Sequence[str], nbest: int) -> list[list[ServedHypothesis]]:
        """Sends one request, and repeats it while the server is busy."""
        check_characters(texts)
        signature = "serving_default" if nbest == 1 else "nbest"
        for attempt in itertools.count(1):
            try:
                outputs = self._connection.predict(signature, texts, self._timeout)
                break
            except BusyError as error:
                if attempt == _ATTEMPTS:
                    raise BusyError(f"{error} (Tried {attempt} times.)") from error
                # Jitter: clients that were turned away together should not come back together.
                if self._closed.wait(_FIRST_DELAY * 2 ** (attempt - 1) * random.uniform(0.5, 1.5)):
                    raise
        return hypotheses(outputs, len(texts), nbest, self._target)

    def _trouble(self) -> UnknownModelError | ServerError | None:
        """Returns why the model is not ready; None if it is."""
        try:
            states = self._connection.states(min(self._timeout, 10.0))
        except (BusyError, NoAnswerError, UnknownModelError) as error:
            return error
        if any(state == "AVAILABLE" for _, state, _ in states):
            return None
        states_text = ", ".join(f"version {number} {state} {message}".rstrip() for number, state, message in states)
        return ServerError(f"The {self._target} is not ready: {states_text or 'no version'}.")
