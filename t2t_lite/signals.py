"""SIGTERM, SIGHUP and Ctrl-C: the first one asks for an orderly end, the second one ends the process at once."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  # SIGHUP: the terminal has gone
LAST_STEP = "this step is the last, and is saved; a second signal ends at once."
BEFORE_FIRST_STEP = "the run ends before its first step; what was saved before is there. A second signal ends at once."
_INTERRUPTED = "interrupted; what was saved before is there."


class Terminated(KeyboardInterrupt):
    """SIGTERM, where a command treats it as Ctrl-C."""


class Stopped(KeyboardInterrupt):
    """A signal asked the process to end.

    Attributes:
        exit_status: what a shell shows for that signal.
        resume_with: the command that resumes, in words.
    """

    def __init__(self, number: int, what: str) -> None:
        self.exit_status = 128 + number
        self.resume_with = "the same command"
        super().__init__(f"{signal.Signals(number).name}: {what}")


def reinstall_handlers() -> None:
    """Installs Python's handlers again: TensorFlow installs its own for SIGTERM if processes form a job."""
    for number in SIGNALS if threading.current_thread() is threading.main_thread() else ():
        if (handler := signal.getsignal(number)) is not None:
            signal.signal(number, handler)


class StopSignals:
    """Context in which SIGTERM, SIGINT and SIGHUP raise `Stopped` in the main thread or, in `deferred`, are only noted.

    A signal that was ignored before stays ignored, as SIGINT is in a shell's background jobs and SIGHUP under nohup.
    In another thread the context does nothing: Python handles signals in the main thread only.

    Attributes:
        received: the number of the first signal; 0: there was none.
        notice: what is printed when a signal comes in `deferred`.
    """

    def __init__(self) -> None:
        self.received = 0
        self.notice = LAST_STEP
        self._deferred = False
        self._raised: Stopped | None = None
        self._before: dict[int, Any] = {}  # handlers; empty until the context is entered
        self._other_writer: int | None = None  # of a pipe as ours, such as asyncio's; -1: there was none

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is not threading.main_thread():
            return self
        # Python runs a handler only when TensorFlow has returned to it, which may take as long as a step. The number of
        # each signal comes through this pipe at once.
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        self._other_writer = signal.set_wakeup_fd(writer)
        threading.Thread(target=self._watch, args=(reader,), daemon=True, name="t2t-lite-signals").start()
        self._before = {
            number: handler for number in SIGNALS if (handler := signal.getsignal(number)) is not signal.SIG_IGN
        }
        self._install()
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._other_writer is not None:
            os.close(signal.set_wakeup_fd(self._other_writer))

    @contextlib.contextmanager
    def deferred(self) -> Iterator[None]:
        """Context in which signals are only recorded in `received`; at its end they raise `Stopped`."""
        self._install()  # again: TensorFlow installs its own for SIGTERM if processes form a job
        with self._mode(True):
            yield
        self.check()

    @contextlib.contextmanager
    def immediate(self) -> Iterator[None]:
        """Context inside `deferred` in which signals raise `Stopped`, including one recorded before."""
        with self._mode(False), self.not_lost():
            self.check()
            yield

    @contextlib.contextmanager
    def not_lost(self) -> Iterator[None]:
        """Context in which an error after a `Stopped` was raised is that `Stopped`.

        `keras.ops.shape` drops every exception, and the model that is being traced then fails for want of a shape.
        """
        try:
            yield
        except Exception as error:
            if self._raised is not None:
                raise self._raised from error
            raise

    def ask(self, who: str) -> None:
        """Records SIGINT, which ends a run after its step, and prints who has asked for that."""
        if not self.received:
            self.received = signal.SIGINT
            print(f"{who}: {self.notice}", file=sys.stderr)

    def check(self) -> None:
        """Raises `Stopped` if a signal was recorded."""
        if self.received:
            raise Stopped(self.received, _INTERRUPTED)

    def _install(self) -> None:
        for number in self._before:
            signal.signal(number, self._handle)

    @contextlib.contextmanager
    def _mode(self, deferred: bool) -> Iterator[None]:
        before, self._deferred = self._deferred, deferred
        try:
            yield
        finally:
            self._deferred = before

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received and number == signal.SIGHUP:
            return  # the process is ending already; raised here, it would break off what closes files
        self.received = self.received or number
        if not self._deferred:
            self._raised = Stopped(number, _INTERRUPTED)
            raise self._raised

    def _watch(self, reader: int) -> None:
        signals = 0
        while number := os.read(reader, 1):
            if number[0] not in SIGNALS:
                continue
            signals += 1
            if signals > 1 and number[0] == signal.SIGHUP:
                continue  # a closing terminal sends it once, and its shell again
            if signals > 1:
                os._exit(128 + number[0])
            if self._deferred:
                name = signal.Signals(number[0]).name
                with contextlib.suppress(OSError):  # the terminal may have gone
                    print(f"{name}: {self.notice}", file=sys.stderr)
        os.close(reader)
