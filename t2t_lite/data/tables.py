"""Tables of pairs: .tsv, .csv and .jsonl files that hold both sides, a pair in each row; read as streams."""

from __future__ import annotations

import csv
import functools
import json
import logging
import os
import re
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from t2t_lite.data.columns import Languages, find_sides, has_source_alone, names_other_languages
from t2t_lite.data.compressed import split_suffix
from t2t_lite.data.sources import read_lines
from t2t_lite.errors import DataError

SUFFIXES = (".tsv", ".csv", ".jsonl")
JSON = ".json"  # read as .jsonl
_LONG_CELL = (  # csv's limit stays, as otherwise a quote that is not closed would take in the rest of a large file
    f"it has a cell of more than {csv.field_size_limit():,} characters. If it begins with a quote, close it where the "
    "text ends; if it is so long, give the data as .jsonl, which has no such limit"
)
_SHOWN = 3  # numbers of further damaged rows in a message
# The first line of JSON that is not an object a line: of an array, or of an object that may hold one.
_WHOLE = re.compile(r'\s*(?:(?P<array>\[)\s*(?:\{|$)|\{\s*(?:"(?P<key>\w+)"\s*:\s*\[\s*(?:\{.*)?)?$)')

_log = logging.getLogger("t2t_lite")

Path = str | os.PathLike[str]
OnDamaged = Callable[[str, int], None]  # (a sentence on the damaged rows of a file, their number)


class _RowError(ValueError):
    """What is wrong with a row; `columns`: how many it should have, where it has others."""

    def __init__(self, what: str, columns: int = 0) -> None:
        super().__init__(what)
        self.columns = columns


def read_table(path: Path, languages: Languages, leave_out: OnDamaged | None = None) -> Iterator[tuple[str, str]]:
    """Yields (source, target) of each row of a .tsv, .csv or .jsonl file, plain or compressed; blank rows are skipped.

    Args:
        languages: codes of source and target, as in the header or the keys; columns.py has other names.
        leave_out: damaged rows are left out, and it is called after the last row if there were any. None: they are an
            error, which is raised after the last row and counts them.

    Raises:
        DataError: as read_lines; damaged rows (also where all are damaged); a file without rows.
    """
    damaged = _Damaged(path)
    good = 0
    for number, found in _objects(path, languages) if _is_json(path) else _columns(path, languages):
        try:
            if isinstance(found, _RowError):
                raise found
            pair = _text(path, number, found[0]), _text(path, number, found[1])
        except _RowError as fault:
            damaged.add(number, fault)
            continue
        good += 1
        if leave_out is not None or not damaged.count:
            yield pair
    if damaged.count and (leave_out is None or not good):
        raise damaged.error(good)
    if leave_out is not None and damaged.count:
        leave_out(damaged.summary(), damaged.count)
    if not good:
        raise DataError(f"{path} holds no rows; each row should hold a sentence and its translation.")


def has_targets(path: Path, languages: Languages) -> bool:
    """Whether a table has a column or key for targets, and text in it; test sets to be translated have none."""
    if _is_json(path):
        row = _content(next((line for line in read_lines(path) if line.strip()), ""))
        if row is not None and has_source_alone([name for name in row if isinstance(row[name], str)], languages):
            return False
    else:
        rows = (row for _, row in _cells(path) if not isinstance(row, _RowError) and any(map(str.strip, row)))
        first = next(rows, [])
        if len(first) == 1 or has_source_alone(first, languages):
            return False
    pairs = read_table(path, languages, lambda sentence, count: None)
    return next((True for _, target in pairs if target.strip()), False)


def has_objects(path: Path, languages: Languages) -> bool:
    """Whether the first row of a .json file is an object with a source and a target."""
    try:
        return isinstance(next(_objects(path, languages), (0, _RowError("")))[1], tuple)
    except DataError:
        return False


def _is_json(path: Path) -> bool:
    return split_suffix(os.fspath(path))[0].endswith((".jsonl", JSON))


class _Damaged:
    """The damaged rows of a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._numbers: list[int] = []
        self._first = _RowError("")
        self.count = 0

    def add(self, number: int, fault: _RowError) -> None:
        """Counts a row; the first one is what messages are about."""
        if not self.count:
            self._first = fault
        if self.count <= _SHOWN:
            self._numbers.append(number)
        self.count += 1

    def summary(self) -> str:
        """What is said where the rows are left out."""
        rows = f"{self.count:,} damaged row{'s' if self.count > 1 else ''}"
        first = "it is" if self.count == 1 else "the first is"
        return f"{self._path}: {rows} left out, {first} row {self._numbers[0]}: {self._first}."

    def error(self, good: int) -> DataError:
        """The error about the first row; it says how many more there are, and what to do if there are `good` ones."""
        text = f"{self._path}, row {self._numbers[0]}: {self._first}."
        if more := self.count - 1:
            listed = ", ".join(map(str, self._numbers[1:])) + (", ..." if more > _SHOWN else "")
            text += (
                f" {more:,} more of {self.count + good:,} rows {'is' if more == 1 else 'are'} damaged: row {listed}."
            )
        if good:
            columns = self._first.columns
            awk = rf", or awk -F'\t' 'NF=={columns}' OLD > NEW" if columns and ".tsv" in str(self._path) else ""
            text += f" Correct {'them' if more else 'it'}, or leave damaged rows out: --clean{awk}."
        return DataError(text)


def _text(path: Path, number: int, text: str) -> str:
    """A text that can be written as UTF-8, with line breaks as "\\n"."""
    if "\r" in text:
        text = re.sub("\r\n?", "\n", text)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise _RowError(f"it has half a character (\\u{ord(text[error.start]):04x})") from None
    return text


def _columns(path: Path, languages: Languages) -> Iterator[tuple[int, tuple[str, str] | _RowError]]:
    """Yields (row, pair or fault) of a .tsv or .csv file."""
    places: tuple[int, int] | None = None
    first = width = 0  # the row that says how many columns there are, and their number
    for number, row in _cells(path):
        if isinstance(row, _RowError):
            yield number, row
            continue
        if not any(cell.strip() for cell in row):
            continue
        if not first:
            first, places = number, _header(path, row, languages)
            if places is not None:
                width = len(row)
                continue
        if places is None:
            if len(row) != 2:
                yield number, _RowError(f"it has {_count(len(row))}; expected {_describe_header(languages)}")
                continue
            first, width, places = number, 2, (0, 1)
            _say_assumed(os.fspath(path), languages)
        if len(row) != width:
            start = "the first row" if first == 1 else f"row {first}"
            yield number, _RowError(f"it has {_count(len(row))}, but {start} has {width}", columns=width)
            continue
        yield number, (row[places[0]], row[places[1]])


def _count(columns: int) -> str:
    return "1 column" if columns == 1 else f"{columns} columns"


def _describe_header(languages: Languages) -> str:
    return f"two columns, or a header that names {' and '.join(languages)}, or source and target"


@functools.cache  # once for each file
def _say_assumed(path: str, languages: Languages) -> None:
    _log.info("%s has no header: its first column is taken as %s, the second as %s.", path, *languages)


@functools.cache
def _say_header(path: str, source: str, target: str, languages: Languages) -> None:
    _log.info("%s has a header: %r is taken as %s, %r as %s.", path, source, languages[0], target, languages[1])


def _header(path: Path, row: list[str], languages: Languages) -> tuple[int, int] | None:
    """Returns the columns of source and target if the first row is a header; DataError if it names other languages."""
    places = find_sides(tuple(row), languages)
    if places is not None:
        source, target = row[places[0]].strip(), row[places[1]].strip()
        if (source.lower(), target.lower()) != tuple(code.lower() for code in languages):
            _say_header(os.fspath(path), source, target, languages)
    elif names_other_languages(row, languages):
        raise DataError(
            f"{path}: its first row, {row[0].strip()!r} and {row[1].strip()!r}, names two languages that are not "
            f"{' and '.join(languages)}. Rename the columns to these; if the row is text, put a row with them above it."
        )
    return places


def _cells(path: Path) -> Iterator[tuple[int, list[str] | _RowError]]:
    """Yields (number, cells). In .tsv files quotes are text; in .csv files Python's csv module interprets them."""
    lines = read_lines(path)
    if split_suffix(os.fspath(path))[0].endswith(".tsv"):
        return enumerate((line.split("\t") for line in lines), start=1)
    return _csv_rows(lines)


def _csv_rows(lines: Iterator[str]) -> Iterator[tuple[int, list[str] | _RowError]]:
    """Yields the rows of CSV. After a damaged row, the line that follows its first one is the next row."""
    again: deque[str] = deque()
    taken: list[str] = []  # the lines of the present row

    def feed() -> Iterator[str]:
        while (line := again.popleft() if again else next(lines, None)) is not None:
            taken.append(line)
            yield line + "\n"

    rows = csv.reader(feed(), strict=True)
    number = width = 0
    while True:
        taken.clear()
        number += 1
        try:
            row = next(rows, None)
        except csv.Error as error:
            fault = _LONG_CELL if "field limit" in str(error) else _not_csv(error)
        else:
            if row is None:
                return
            width = width or len(row)
            if len(taken) == 1 or len(row) == width:
                yield number, row
                continue
            fault = f"it has {len(taken):,} lines and {_count(len(row))}, but the first row has {width}"
        again.extendleft(reversed(taken[1:]))
        rows = csv.reader(feed(), strict=True)
        yield number, _RowError(fault)


def _not_csv(error: csv.Error) -> str:
    return f"it is not CSV ({error}); expected cells with commas between, and quotes in pairs"


def _objects(path: Path, languages: Languages) -> Iterator[tuple[int, tuple[str, str] | _RowError]]:
    """Yields (row, pair or fault) of a .jsonl file."""
    first = True
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        found = _pair(line, languages)
        if first and isinstance(found, _RowError):
            _refuse_whole(path, line)
        first = False
        yield number, found


def _refuse_whole(path: Path, line: str) -> None:
    """Raises DataError if the first line is of JSON that is not an object a line."""
    if (whole := _WHOLE.match(line)) is not None:
        what = "a JSON array" if whole["array"] else "one JSON object over several lines"
        values = ".[]" if whole["array"] else f".{whole['key']}[]" if whole["key"] else "."
        raise DataError(
            f"{path} is {what}; expected an object with a pair in each line. Convert it: jq -c '{values}' OLD > NEW."
        )


def _content(line: str) -> dict[str, Any] | None:
    """Returns the object of a line that holds the two sides; None if the line is not an object."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if isinstance(row, dict) and isinstance(row.get("translation"), dict):
        row = row["translation"]
    return row if isinstance(row, dict) else None


def _pair(line: str, languages: Languages) -> tuple[str, str] | _RowError:
    row = _content(line)
    if row is None:
        try:
            what = f"it is {json.dumps(json.loads(line))[:50]}"
        except (ValueError, RecursionError) as error:
            what = f"it is not JSON ({error})"
        return _RowError(f"{what}; expected {_example(languages)}")
    names = tuple(name for name, value in row.items() if isinstance(value, str))
    if (places := find_sides(names, languages)) is not None:
        return row[names[places[0]]], row[names[places[1]]]
    if find_sides(tuple(row), languages) is None:
        what = f"its keys are {', '.join(map(repr, row)) or 'none'}"
    else:
        what = f"{' or '.join(map(repr, languages))} is not a text"
    return _RowError(f"{what}; expected {_example(languages)}")


def _example(languages: Languages) -> str:
    flat = json.dumps(dict.fromkeys(languages, "..."))
    return f'{{"translation": {flat}}}, {flat} or {{"source": "...", "target": "..."}}'
