"""Standard streams that outlive their readers: `trainer | head` ends the output, not the training."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO


class LastingStream:
    """A text stream that drops all text after a failed write, for example when its reader has gone.

    Args:
        stream: the stream to write to.
        lost: printed on standard error after the first failed write; "" prints nothing.
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
        """Flushes what was written, or drops it."""
        try:
            self._stream.flush()
        except OSError as error:
            self._drop(error)

    def _drop(self, error: OSError) -> None:
        # Sends the buffer and all later output to the null device: else Python's own flush at exit would fail, too.
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
    """Makes standard output and standard error such streams; prints `lost` if standard output is lost."""
    out, err = LastingStream(sys.stdout, lost), LastingStream(sys.stderr)
    with contextlib.redirect_stderr(err), contextlib.redirect_stdout(out):
        try:
            yield
        finally:
            out.flush()
            err.flush()
