"""Two threads, of which the first is held in a method until the second waits for it."""

import concurrent.futures
import threading
from collections.abc import Callable
from typing import Any

import pytest


class SpyLock:
    """A lock; `reached` says that a thread has come to it."""

    def __init__(self) -> None:
        self._lock, self.reached = threading.RLock(), threading.Event()

    def __enter__(self) -> None:
        self.reached.set()
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()


class Second:
    """A second thread, which starts in the first call of a method and waits there for a lock.

    Args:
        owner, method: the call is held until the second thread has come to `lock`, or has ended.
        action: what the second thread does.
    """

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, owner: type, method: str, lock: SpyLock, action: Callable[[], Any]
    ) -> None:
        self._lock, self._action = lock, action
        self._result: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self._started = self._waited = False
        plain = getattr(owner, method)

        def held(*args: Any, **kwargs: Any) -> Any:
            if not self._started:
                self._started = True
                self._hold()
            return plain(*args, **kwargs)

        monkeypatch.setattr(owner, method, held)

    def result(self) -> Any:
        """Returns what the action returned, once the first thread is done; fails if it did not wait for the first."""
        found = self._result.result(60)
        assert self._waited
        return found

    def _hold(self) -> None:
        self._lock.reached.clear()
        self._result.add_done_callback(lambda _: self._lock.reached.set())
        threading.Thread(target=self._run, daemon=True).start()
        assert self._lock.reached.wait(60)
        self._waited = not self._result.done()

    def _run(self) -> None:
        try:
            self._result.set_result(self._action())
        except Exception as error:
            self._result.set_exception(error)
