"""Input lines of a command: in blocks of a fixed size from a file, or as they arrive from a pipe or a terminal."""

import io
import itertools
import os
import queue
import stat
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from typing import IO

from t2t_lite.data.input_texts import read_texts
from t2t_lite.data.sources import decode_lines
from t2t_lite.errors import UsageError

BLOCK = 1024  # lines; blocks are translated one after the other, and each is written when it is done
_END = None


def is_file(path: str | None) -> bool:
    """Whether the lines come from a file, which can be read twice."""
    return path is not None and (not os.path.exists(path) or stat.S_ISREG(os.stat(path).st_mode))


def count_lines(path: str) -> int:
    """Counts the lines of a file by reading them all, so that a line that is not UTF-8 is found at once.

    Raises:
        DataError: as `read_texts`.
    """
    return sum(1 for _ in read_texts(path))


def file_blocks(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yields blocks of `BLOCK` lines, and the rest."""
    lines = iter(lines)
    while block := list(itertools.islice(lines, BLOCK)):
        yield block


def lines_of(path: str | None) -> Iterable[str]:
    """Returns the lines of `path`, such as a named pipe, or of standard input, as they come."""
    return decode_lines(_standard_input(), "standard input") if path is None else read_texts(path)


def _standard_input() -> IO[bytes]:
    """Returns a reader of standard input for a thread.

    Python closes `sys.stdin` when it ends, and aborts if a thread that waits for input holds its lock.
    """
    try:
        return open(sys.stdin.fileno(), "rb", closefd=False)
    except io.UnsupportedOperation:  # not a file of the system, as in tests
        return sys.stdin.buffer


class LiveLines:
    """Lines as they come; a thread reads at most two blocks ahead.

    Args:
        lines: an iterator that may wait for its next line.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self._ready: queue.Queue[str | BaseException | None] = queue.Queue(2 * BLOCK)
        self._thread = threading.Thread(target=self._read, args=(lines,), daemon=True)
        self._error: BaseException | None = None
        self._thread.start()

    def count_waiting(self, seconds: float = 0.3) -> int:
        """Returns how many lines are there after `seconds`, or earlier if two blocks or all lines are there.

        Raises:
            DataError: the reader has already failed.
        """
        deadline = time.monotonic() + seconds
        while self._thread.is_alive() and not self._ready.full() and time.monotonic() < deadline:
            time.sleep(0.005)
        if self._error is not None:
            raise self._error
        return self._ready.qsize()

    def blocks(self, patience: float = 0.1) -> Iterator[list[str]]:
        """Yields blocks: each ends when it is full, or when no further line has come for `patience` seconds."""
        end: str | BaseException | None = ""
        while end == "":
            block, end = self._next_block(patience)
            if block:
                yield block
        if isinstance(end, BaseException):
            raise end

    def _next_block(self, patience: float) -> tuple[list[str], str | BaseException | None]:
        """Returns lines and what came after them: an error, `_END`, or "" where nothing has come yet."""
        block: list[str] = []
        while len(block) < BLOCK:
            try:
                item = self._ready.get(timeout=patience if block else None)
            except queue.Empty:
                break
            if not isinstance(item, str):
                return block, item
            block.append(item)
        return block, ""

    def _read(self, lines: Iterable[str]) -> None:
        try:
            for line in lines:
                self._ready.put(line)
            self._ready.put(_END)
        except BaseException as error:  # raised later, where the lines are used
            self._error = error
            self._ready.put(error)


def parse_shard(text: str) -> tuple[int, int]:
    """Reads --shard=I/N, with I from 1 to N; raises UsageError for any other form."""
    first, slash, last = text.partition("/")
    if not (slash and first.isdecimal() and last.isdecimal() and 1 <= int(first) <= int(last)):
        raise UsageError(f"--shard={text} is not of the form I/N with I from 1 to N, such as 1/4.")
    return int(first), int(last)


def shard_range(total: int, shard: tuple[int, int]) -> tuple[int, int]:
    """Returns the lines of a shard, [first, end); all shards' outputs, joined in order, are the whole file's output."""
    index, number = shard
    return (index - 1) * total // number, index * total // number
