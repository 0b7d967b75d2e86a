"""Ranges of lines in pairs of plain files, so that several processes can read them at once.

A range begins and ends with a line, and has the same lines in both files. To find them, line feeds are counted, and no
text is decoded. Files that cannot be divided are read by one process, which then says what is wrong with them: packed
ones, WMT's .sgm, files of unequal length, and files whose lines carriage returns end.
"""

import dataclasses
import itertools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from t2t_lite.data.compressed import split_suffix
from t2t_lite.data.sources import MAX_LINE, read_span, returns_end_lines
from t2t_lite.errors import DataError
from t2t_lite.problem import LineFiles

RANGE_BYTES = 1 << 20  # of the source: about two thousand pairs
_BLOCK = 1 << 16  # bytes whose line feeds are counted together


@dataclasses.dataclass(frozen=True)
class LineRange:
    """Some lines of a pair of files.

    Attributes:
        first: number of the first line, from 1.
        lines: how many.
        before: pairs in the files before these.
        spans: first byte, and byte after the last, of source and target.
        facts: size and time of change of the two files when they were divided.
    """

    files: LineFiles
    first: int
    lines: int
    before: int
    spans: tuple[tuple[int, int], ...]
    facts: tuple[tuple[int, int], ...]

    def read(self) -> Iterator[tuple[str, str]]:
        """Yields the pairs; DataError where a line is no text in UTF-8, or a file has changed or cannot be read."""
        try:
            yield from self._pairs()
        except OSError as error:
            name = error.filename or " or ".join(map(str, self.files.paths))
            raise DataError(f"{name} cannot be read: {error.strerror}.") from error

    def _pairs(self) -> Iterator[tuple[str, str]]:
        for path, facts in zip(self.files.paths, self.facts, strict=True):
            if _facts(path) != facts:
                raise DataError(f"{path} has changed while it was read. Prepare the data again.")
        sides = (
            read_span(path, start, end, self.first)
            for path, (start, end) in zip(self.files.paths, self.spans, strict=True)
        )
        label = self.files.label
        for source, target in zip(*sides, strict=True):
            yield (f"{label} {source}" if label and source.strip() else source), target

    def place(self, side: int, index: int) -> str:
        """Where the source (0) or the target (1) of a pair is, counted from 0 in the range."""
        if self.files.names is None:
            return f"pair {self.before + self.first + index:,}"
        return f"{self.files.names[side]}, line {self.first + index:,}"


def divide(files: Sequence[LineFiles]) -> list[LineRange] | None:
    """Returns the ranges of all files, in order; None if one of them has to be read as a whole."""
    ranges: list[LineRange] = []
    divided: dict[LineFiles, list[LineRange]] = {}  # a file may be read several times
    before = 0
    for pair in files:
        if pair not in divided:
            found = _divide_pair(pair)
            if found is None:
                return None
            divided[pair] = found
        ranges += [dataclasses.replace(part, before=before) for part in divided[pair]]
        before += sum(part.lines for part in divided[pair])
    return ranges


def _divide_pair(files: LineFiles) -> list[LineRange] | None:
    if not all(map(_is_plain, files.paths)):
        return None
    try:
        facts = tuple(map(_facts, files.paths))
        sides = [_Side(path) for path in files.paths]
    except OSError:
        return None
    source, target = sides
    if any(side.ends_in_returns for side in sides) or source.lines != target.lines or not source.lines:
        return None
    # Where each million bytes of the source begin, the next line begins a range.
    bounds = sorted({*source.lines_at(range(RANGE_BYTES, source.size, RANGE_BYTES)), 0, source.lines})
    offsets = [side.offsets_of(bounds) for side in sides]
    ranges = []
    for i, (first, end) in enumerate(itertools.pairwise(bounds)):
        spans = tuple((places[i], places[i + 1]) for places in offsets)
        if any(stop - start > MAX_LINE for start, stop in spans):
            return None
        ranges.append(LineRange(files, first + 1, end - first, 0, spans, facts))
    return ranges


def _is_plain(path: Path) -> bool:
    name, packed = split_suffix(os.fspath(path))
    return not packed and not name.endswith(".sgm")


def _facts(path: Path) -> tuple[int, int]:
    facts = path.stat()
    return facts.st_size, facts.st_mtime_ns


class _Side:
    """The line feeds of a file, counted by blocks."""

    def __init__(self, path: Path) -> None:
        self._path = path
        counts, returns, feed = [], 0, b"\n"
        with open(path, "rb") as file:
            while block := file.read(_BLOCK):
                # A return at the end of a block counts as one inside of a line, so that there may be one too many.
                returns += block.count(b"\r") - block.count(b"\r\n") if b"\r" in block else 0
                counts.append(block.count(b"\n"))
                feed = block[-1:]
            self.size = file.tell()
        self._ends = np.cumsum([0, *counts])  # line feeds before each block
        self.lines = int(self._ends[-1]) + (feed != b"\n")
        self.ends_in_returns = returns_end_lines(self.lines, returns)

    def lines_at(self, offsets: Sequence[int]) -> list[int]:
        """Returns the number of the first line that begins after the block of each offset, from 0."""
        blocks = [min(offset // _BLOCK + 1, len(self._ends) - 1) for offset in offsets]
        return [min(int(self._ends[block]) + 1, self.lines) for block in blocks]

    def offsets_of(self, lines: Sequence[int]) -> list[int]:
        """Returns the byte where each line begins, counted from 0; the file's end for the line after the last."""
        found = []
        with open(self._path, "rb") as file:
            for line in lines:
                block = int(np.searchsorted(self._ends, line)) - 1  # which holds the line feed before the line
                if line == 0 or line == self.lines:
                    found.append(0 if line == 0 else self.size)
                    continue
                file.seek(block * _BLOCK)
                feeds = np.flatnonzero(np.frombuffer(file.read(_BLOCK), np.uint8) == ord("\n"))
                found.append(block * _BLOCK + int(feeds[line - 1 - int(self._ends[block])]) + 1)
        return found
