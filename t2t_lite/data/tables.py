"""Tables of pairs: .tsv, .csv, .jsonl and .parquet files that hold both sides, a pair a row; read as streams."""

import csv
import functools
import json
import logging
import os
import re
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from t2t_lite.data import parquet
from t2t_lite.data.columns import Languages, find_sides, has_source_alone, names_other_languages
from t2t_lite.data.compressed import split_suffix
from t2t_lite.data.sources import read_lines
from t2t_lite.errors import DataError
from t2t_lite.files import StrPath

SUFFIXES = (".tsv", ".csv", ".jsonl", parquet.SUFFIX)
JSON = ".json"  # read as .jsonl

_log = logging.getLogger("t2t_lite")

OnDamaged = Callable[[str, int], None]  # (a sentence on the damaged rows of a file, their number)
Row = tuple[str, str] | str  # a pair, or what is wrong with the row


def read_table(path: StrPath, languages: Languages, leave_out: OnDamaged | None = None) -> Iterator[tuple[str, str]]:
    """Yields (source, target) of each row of a table; .tsv, .csv and .jsonl may be compressed; blank rows are skipped.

    Args:
        languages: codes of source and target, as in the header or the keys; columns.py has other names.
        leave_out: damaged rows are left out, and it is called after the last row if there were any. None: they are an
            error, which is raised after the last row and counts them.

    Raises:
        DataError: as read_lines or parquet.read_rows; damaged rows (also where all are damaged); a file without rows.
    """
    good = damaged = 0
    first = ""
    for number, row in _read_rows(path, languages):
        found = row if isinstance(row, str) else _normalise(row)
        if isinstance(found, str):
            damaged += 1
            first = first or f"row {number}: {found}"
            continue
        good += 1
        if leave_out is not None or not damaged:
            yield found
    if not good and not damaged:
        raise DataError(f"{path} holds no rows; each row should hold a sentence and its translation.")
    if damaged and good and leave_out is not None:
        leave_out(f"{path}: {damaged:,} damaged of {damaged + good:,} rows left out, the first is {first}.", damaged)
    elif damaged:
        advice = ", or leave them out: --clean" if good else ""
        raise DataError(f"{path}, {first}. Damaged: {damaged:,} of {damaged + good:,} rows. Correct them{advice}.")


def _read_rows(path: StrPath, languages: Languages) -> Iterator[tuple[int, Row]]:
    if _is_parquet(path):
        return parquet.read_rows(path, languages)
    return _json_rows(path, languages) if _is_json(path) else _column_rows(path, languages)


def has_targets(path: StrPath, languages: Languages) -> bool:
    """Whether a table has a column or key for targets, and text in it; test sets to be translated have none."""
    if _is_parquet(path):
        names = parquet.read_names(path)
    elif _is_json(path):
        row = _parse_object(next((line for line in read_lines(path) if line.strip()), "")) or {}
        names = [name for name in row if isinstance(row[name], str)]
    else:
        names = next((row for _, row in _read_cells(path) if isinstance(row, list) and any(map(str.strip, row))), [])
    if len(names) == 1 or has_source_alone(names, languages):
        return False
    return any(isinstance(row, tuple) and row[1].strip() for _, row in _read_rows(path, languages))


def has_objects(path: StrPath, languages: Languages) -> bool:
    """Whether the first row of a .json file is an object with a source and a target."""
    try:
        return isinstance(next(_json_rows(path, languages), (0, ""))[1], tuple)
    except DataError:
        return False


def _is_parquet(path: StrPath) -> bool:
    return os.fspath(path).endswith(parquet.SUFFIX)


def _is_json(path: StrPath) -> bool:
    return split_suffix(os.fspath(path))[0].endswith((".jsonl", JSON))


def _normalise(pair: tuple[str, str]) -> Row:
    """Returns texts that can be written as UTF-8, with line breaks as "\\n"."""
    for text in pair:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            return f"it has half a character ({text[error.start]!r})"
    source, target = (re.sub("\r\n?", "\n", text) if "\r" in text else text for text in pair)
    return source, target


def _column_rows(path: StrPath, languages: Languages) -> Iterator[tuple[int, Row]]:
    """Yields the rows of a .tsv or .csv file."""
    places: tuple[int, int] | None = None
    width = 0
    for number, row in _read_cells(path):
        if isinstance(row, str):
            yield number, row
        elif any(map(str.strip, row)):
            if not width and (places := _find_header(path, row, languages)) is not None:
                width = len(row)
                continue
            width = width or -1
            if places is None and len(row) == 2:
                width, places = 2, (0, 1)
                source, target = languages
                _log_once(f"{path} has no header: its first column is taken as {source}, the second as {target}.")
            if places is None:
                header = f"a header that names {' and '.join(languages)}, or source and target"
                yield number, f"columns: {len(row)}; expected two, or {header}"
            elif len(row) != width:
                yield number, f"columns: {len(row)} instead of {width}"
            else:
                yield number, (row[places[0]], row[places[1]])


@functools.cache  # a file is read several times
def _log_once(message: str) -> None:
    _log.info("%s", message)


def _find_header(path: StrPath, row: list[str], languages: Languages) -> tuple[int, int] | None:
    """Returns the columns of source and target if the first row is a header; DataError if it names other languages."""
    places = find_sides(tuple(row), languages)
    if places is not None:
        source, target = row[places[0]].strip(), row[places[1]].strip()
        if (source.lower(), target.lower()) != tuple(code.lower() for code in languages):
            _log_once(f"{path} has a header: {source!r} is taken as {languages[0]}, {target!r} as {languages[1]}.")
    elif names_other_languages(row, languages):
        raise DataError(
            f"{path}: its first row, {row[0].strip()!r} and {row[1].strip()!r}, names two languages that are not "
            f"{' and '.join(languages)}. Rename the columns to these; if the row is text, put a row with them above it."
        )
    return places


def _read_cells(path: StrPath) -> Iterator[tuple[int, list[str] | str]]:
    """Yields (number, cells). In .tsv files quotes are text; in .csv files Python's csv module interprets them."""
    lines = read_lines(path)
    if split_suffix(os.fspath(path))[0].endswith(".tsv"):
        return enumerate((line.split("\t") for line in lines), start=1)
    return _csv_rows(lines)


def _csv_rows(lines: Iterator[str]) -> Iterator[tuple[int, list[str] | str]]:
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
            fault = f"it is not CSV ({error})"
        else:
            if row is None:
                return
            width = width or len(row)
            if len(taken) == 1 or len(row) == width:
                yield number, row
                continue
            fault = f"columns: {len(row)} instead of {width}, in {len(taken):,} lines; is a quote not closed?"
        again.extendleft(reversed(taken[1:]))
        rows = csv.reader(feed(), strict=True)
        yield number, fault


def _json_rows(path: StrPath, languages: Languages) -> Iterator[tuple[int, Row]]:
    """Yields the rows of a .jsonl file."""
    rows = ((number, line) for number, line in enumerate(read_lines(path), start=1) if line.strip())
    for place, (number, line) in enumerate(rows):
        if place == 0 and (line.lstrip().startswith("[") or line.strip() == "{"):
            raise DataError(f"{path} does not have an object in each line. Convert it: jq -c '.[]' OLD > NEW.")
        yield number, _parse_row(line, languages)


def _parse_object(line: str) -> dict[str, Any] | None:
    """Returns the object of a line that holds the two sides; None if the line is not an object."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if isinstance(row, dict) and isinstance(row.get("translation"), dict):
        row = row["translation"]
    return row if isinstance(row, dict) else None


def _parse_row(line: str, languages: Languages) -> Row:
    row = _parse_object(line) or {}
    names = tuple(name for name, value in row.items() if isinstance(value, str))
    if (places := find_sides(names, languages)) is not None:
        return row[names[places[0]]], row[names[places[1]]]
    flat = json.dumps(dict.fromkeys(languages, "..."))
    return f'it is {line[:60]}; expected {{"translation": {flat}}}, {flat} or {{"source": "...", "target": "..."}}'
