"""Standard streams that outlive their readers: `trainer | head` ends the output, not the training."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO


class LastingStream:
    """A text stream that drops what it is given once a write has failed, as when its reader has gone.

    Args:
        stream: what is written to.
        lost: said on standard error then; "" says nothing.
    """

    def __init__(self, stream: TextIO, lost: str = "") -> None:
        self._stream, self._lost = stream, lost

    def write(self, text: str) -> int:
        """Writes `text`, or drops it."""
        try:
            self._stream.write(text)
        except OSError as error:
            self._drop(error)
        return len(text)

    def flush(self) -> None:
        """Hands on what was written, or drops it."""
        try:
            self._stream.flush()
        except OSError as error:
            self._drop(error)

    def _drop(self, error: OSError) -> None:
        # What is still in the buffer, and all that comes, goes nowhere: Python's own flush at its end would fail, too.
        with contextlib.suppress(OSError, ValueError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self._stream.fileno())
            os.close(null)
        if self._lost:
            print(f"{self._lost} ({error.strerror or error})", file=sys.stderr, flush=True)
            self._lost = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def lasting_output(lost: str) -> Iterator[None]:
    """Context in which standard output and standard error are such streams; `lost` is said where the output is lost."""
    out, err = LastingStream(sys.stdout, lost), LastingStream(sys.stderr)
    with contextlib.redirect_stderr(err), contextlib.redirect_stdout(out):
        try:
            yield
        finally:
            out.flush()
            err.flush()
