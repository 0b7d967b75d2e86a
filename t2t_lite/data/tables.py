"""Tables of pairs: .tsv, .csv and .jsonl files that hold both sides, a pair in each row; read as streams."""

from __future__ import annotations

import csv
import functools
import json
import logging
import os
import re
from collections.abc import Iterator
from typing import Any

from t2t_lite.data.compressed import split_suffix
from t2t_lite.data.sources import read_lines
from t2t_lite.errors import DataError

SUFFIXES = (".tsv", ".csv", ".jsonl")
_SIDES = ("source", "target")
_LONG_CELL = (  # csv's limit stays, as otherwise a quote that is not closed would take in the rest of a large file
    f"it has a cell of more than {csv.field_size_limit():,} characters. If it begins with a quote, close it where the "
    "text ends; if it is so long, give the data as .tsv or .jsonl, which have no such limit"
)

_log = logging.getLogger("t2t_lite")

Path = str | os.PathLike[str]
Languages = tuple[str, str]


def read_table(path: Path, languages: Languages) -> Iterator[tuple[str, str]]:
    """Yields (source, target) of each row of a .tsv, .csv or .jsonl file, plain or compressed; blank rows are skipped.

    Args:
        languages: codes of source and target, as in the header or the keys; "source" and "target" are accepted too.

    Raises:
        DataError: as read_lines; a row that is damaged or has other columns or keys; a file without rows.
    """
    is_json = split_suffix(os.fspath(path))[0].endswith(".jsonl")
    number = 0
    for number, *pair in _objects(path, languages) if is_json else _columns(path, languages):
        yield _text(path, number, pair[0]), _text(path, number, pair[1])
    if not number:
        raise DataError(f"{path} holds no rows; each row should hold a sentence and its translation.")


def _text(path: Path, number: int, text: str) -> str:
    """A text as one line that can be written as UTF-8."""
    if "\n" in text or "\r" in text:
        _say_joined(os.fspath(path), number)
        text = re.sub(r"[\r\n]+", " ", text)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise _damaged(path, number, f"it has half a character (\\u{ord(text[error.start]):04x})") from None
    return text


_with_breaks: set[str] = set()  # files that have already been warned about


def _say_joined(path: str, number: int) -> None:
    if path in _with_breaks:
        return
    _with_breaks.add(path)
    _log.warning(
        "%s, row %s: a text has line breaks; each becomes a space, there and in other rows.", path, f"{number:,}"
    )


def _damaged(path: Path, number: int, what: str) -> DataError:
    return DataError(f"{path}, row {number}: {what}.")


def _columns(path: Path, languages: Languages) -> Iterator[tuple[int, str, str]]:
    """Yields (row, source, target) of a .tsv or .csv file."""
    places: tuple[int, int] | None = None
    width = 0
    for number, row in _rows(path):
        if not any(cell.strip() for cell in row):
            continue
        if places is None:
            width = len(row)
            places = _places(row, languages)
            if places is not None:
                continue  # the header
            if width != 2:
                raise _damaged(path, number, f"it has {_count(width)}; expected {_expected(languages)}")
            places = (0, 1)
            _say_assumed(os.fspath(path), languages)
        if len(row) != width:
            raise _damaged(path, number, f"it has {_count(len(row))}, but the first row has {width}")
        yield number, row[places[0]], row[places[1]]


def _count(columns: int) -> str:
    return "1 column" if columns == 1 else f"{columns} columns"


def _expected(languages: Languages) -> str:
    return f"two columns, or a header that names {' and '.join(languages)}, or source and target"


@functools.cache  # once for each file
def _say_assumed(path: str, languages: Languages) -> None:
    _log.info("%s has no header: its first column is taken as %s, the second as %s.", path, *languages)


def _places(row: list[str], languages: Languages) -> tuple[int, int] | None:
    """The columns of source and target if the row is a header that names them."""
    names = [cell.strip().lower() for cell in row]
    for source, target in (languages, _SIDES):
        if names.count(source.lower()) == names.count(target.lower()) == 1:
            return names.index(source.lower()), names.index(target.lower())
    return None


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yields (number, cells). In .tsv files quotes are text; in .csv files Python's csv module interprets them."""
    lines = read_lines(path)
    if split_suffix(os.fspath(path))[0].endswith(".tsv"):
        yield from enumerate((line.split("\t") for line in lines), start=1)
        return
    rows = csv.reader((line + "\n" for line in lines), strict=True)
    number = 0
    try:
        for number, row in enumerate(rows, start=1):
            yield number, row
    except csv.Error as error:
        if "field limit" in str(error):
            raise _damaged(path, number + 1, _LONG_CELL) from None
        what = f"it is not CSV ({error}); expected cells with commas between, and quotes in pairs"
        raise _damaged(path, number + 1, what) from None


def _objects(path: Path, languages: Languages) -> Iterator[tuple[int, str, str]]:
    """Yields (row, source, target) of a .jsonl file."""
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise _damaged(path, number, f"it is not JSON ({error}); expected {_example(languages)}") from None
        yield number, *_pair(path, number, row, languages)


def _pair(path: Path, number: int, row: Any, languages: Languages) -> tuple[str, str]:
    if isinstance(row, dict) and isinstance(row.get("translation"), dict):
        row = row["translation"]
    if isinstance(row, dict):
        for source, target in (languages, _SIDES):
            if isinstance(row.get(source), str) and isinstance(row.get(target), str):
                return row[source], row[target]
        what = (
            f"its keys are {', '.join(map(repr, row)) or 'none'}"
            if not set(languages) <= row.keys()
            else (f"{' or '.join(map(repr, languages))} is not a text")
        )
    else:
        what = f"it is {json.dumps(row)[:50]}"
    raise _damaged(path, number, f"{what}; expected {_example(languages)}")


def _example(languages: Languages) -> str:
    flat = json.dumps(dict.fromkeys(languages, "..."))
    return f'{{"translation": {flat}}}, {flat} or {{"source": "...", "target": "..."}}'
