"""Texts to translate: the lines of a file, or of a .jsonl file the text of each line, which may hold line breaks."""

import json
import os
from collections.abc import Iterator

from t2t_lite.data.compressed import split_suffix
from t2t_lite.data.sources import read_lines
from t2t_lite.errors import DataError
from t2t_lite.files import StrPath

_KEYS = ("input", "source")  # "input" is what t2t-lite-decoder --json writes


def read_texts(path: StrPath) -> Iterator[str]:
    """Yields a text for each line of a file; a blank line is an empty text.

    Raises:
        DataError: as `read_lines`; or a line of a .jsonl file that is neither a string nor an object with one.
    """
    is_json = split_suffix(os.fspath(path))[0].endswith(".jsonl")
    for number, line in enumerate(read_lines(path), start=1):
        yield _text(path, number, line) if is_json and line.strip() else line


def _text(path: StrPath, number: int, line: str) -> str:
    try:
        value = json.loads(line)
        if isinstance(value, dict):
            value = next((value[key] for key in _KEYS if key in value), None)
        if isinstance(value, str):
            value.encode()  # JSON may hold half a character
            return value
    except (ValueError, RecursionError):
        pass
    raise DataError(
        f'{path}, line {number:,}: it is {line[:60]!r}; each line of a .jsonl file is a text, such as "A dog.", or an '
        'object with it, such as {"source": "A dog."}.'
    )
