"""What users pass to functions of Python: lines of text, pairs of them, and numbers, checked."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sized
from typing import Any

from t2t_lite.errors import UsageError, check_characters


def read_lines(lines: Iterable[str], what: str) -> list[str]:
    """Returns `read_texts` of lines; UsageError for one string. `what` takes them, for the message."""
    if isinstance(lines, str) or not isinstance(lines, Iterable):
        given = "one string" if isinstance(lines, str) else repr(lines)
        raise UsageError(f"{what} takes a list of lines, not {given:.80}. Give [line].")
    return read_texts(lines)


def read_phrases(constraints: Iterable[Iterable[str]]) -> list[list[str]]:
    """Returns the phrases of each line; UsageError unless they are lists of them."""
    rows = [constraints] if isinstance(constraints, str) or not isinstance(constraints, Iterable) else [*constraints]
    for row in rows:
        if isinstance(row, str) or not isinstance(row, Iterable):
            raise UsageError(
                f"constraints takes a list of phrases for each line, such as [['Hund', 'alte Katze'], []]; {row!r:.80} "
                "is no list."
            )
    return [read_texts(row) for row in rows]


def plain_number(value: Any) -> Any:
    """Returns a scalar of NumPy's as a number of Python's; other values as they are."""
    import numpy as np

    return value.item() if isinstance(value, np.generic) else value


def two_sides(pairs: Iterable[tuple[str, str]]) -> tuple[list[str], list[str]]:
    """Returns the sources and the targets of pairs; UsageError for what is no list of pairs."""
    pairs = list(pairs) if isinstance(pairs, Iterable) else [pairs]
    if any(isinstance(pair, str) or not isinstance(pair, Sized) or len(pair) != 2 for pair in pairs):
        raise UsageError("score takes a list of pairs (source, target), such as [('a house', 'ein Haus')].")
    return read_texts(source for source, _ in pairs), read_texts(target for _, target in pairs)


def read_texts(lines: Iterable[str]) -> list[str]:
    """Returns lines as the commands read them: an open file's end in a line break. UsageError for what is no text.

    A line break elsewhere is part of the text: a model of line_breaks=symbol translates it, others read a space.
    """
    of_file = isinstance(lines, io.IOBase)
    lines = list(lines)
    for line in lines:
        if not isinstance(line, str):
            raise UsageError(
                f"{line!r:.80} is of the type {type(line).__name__}, but a line of text is expected: a string, such as "
                "'ein Haus'."
            )
    if of_file:
        lines = [line.removesuffix("\n").removesuffix("\r") for line in lines]
    check_characters(lines)
    return lines
