"""Text from files, plain, compressed or WMT's .sgm; one line or pair at a time.

A line ends only at "\\n". Real corpora hold U+0085 and U+2028 inside a line; str.splitlines() would cut there, and the
lines of the two sides would no longer match.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from t2t_lite.data.compressed import open_binary, split_suffix
from t2t_lite.errors import DataError

_BOM = b"\xef\xbb\xbf"
_ZEROS = 3, 0.05  # at least so many, and this share, in a first line of UTF-16: one in each ASCII letter and blank
_UTF16_BOMS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_lines(path: str | os.PathLike[str]) -> Iterator[str]:
    """Yields the lines of a UTF-8 file, without line ends and byte order mark; .gz, .bz2, .xz and .zst are unpacked.

    Raises:
        DataError: no such file, a damaged one, or bytes that are not UTF-8 (the message has file and line).
        UsageError: a .zst file, and zstandard is not installed.
    """
    with open_binary(path) as file:
        yield from decode_lines(file, path)


def decode_lines(file: IO[bytes], name: str | os.PathLike[str]) -> Iterator[str]:
    """Yields the lines of an open binary file, as `read_lines`; messages call the file `name`."""
    # Iterating over a binary file cuts at b"\n" only.
    for number, raw in enumerate(file, start=1):
        if number == 1:
            _refuse_utf16(raw, name)
            raw = raw.removeprefix(_BOM)
        yield _decode(raw.removesuffix(b"\n").removesuffix(b"\r"), name, number)


def read_pairs(source_path: str | os.PathLike[str], target_path: str | os.PathLike[str]) -> Iterator[tuple[str, str]]:
    """Yields (source, target): line N of one file with line N of the other, or the segments of two .sgm files.

    Raises:
        DataError: as read_lines; a file without lines; files of unequal length, found at the end of the shorter one;
            .sgm files with faults, or with different segments.
    """
    if all(split_suffix(os.fspath(path))[0].endswith(".sgm") for path in (source_path, target_path)):
        yield from _read_segments(source_path, target_path)
        return
    sources, targets = read_lines(source_path), read_lines(target_path)
    count = 0
    while True:
        source, target = next(sources, None), next(targets, None)
        if source is None or target is None:
            break
        count += 1
        yield source, target
    # The longer file has given one line that is not yet counted; the rest is counted only for the message.
    counts = [
        count + (line is not None) + sum(1 for _ in rest) for line, rest in ((source, sources), (target, targets))
    ]
    for path, lines in zip((source_path, target_path), counts, strict=True):
        if lines == 0:
            raise DataError(f"{path} is empty; it should have one sentence per line.")
    if counts[0] != counts[1]:
        raise DataError(
            f"{source_path} has {counts[0]:,} lines, but {target_path} has {counts[1]:,}. Line N of one must be the "
            "translation of line N of the other; make the two files equally long."
        )


def each_once(paths: Iterable[Path]) -> list[Path]:
    """Returns the files; DataError if one is there with and without a compression suffix, or with two of them."""
    found: dict[str, Path] = {}
    for path in paths:
        other = found.setdefault(split_suffix(str(path))[0], path)
        if other != path:
            raise DataError(
                f"{path.parent} has both {other.name} and {path.name}, which would be read twice. Keep one."
            )
    return list(found.values())


def list_names(names: Iterable[str]) -> str:
    """Returns the first dozen of the names of a folder's files, for messages."""
    shown = sorted(set(names))
    return ", ".join(shown[:12]) + (f" and {len(shown) - 12} more" if len(shown) > 12 else "") or "no files"


def _read_segments(
    source_path: str | os.PathLike[str], target_path: str | os.PathLike[str]
) -> Iterator[tuple[str, str]]:
    from t2t_lite.data import sgm  # seldom needed

    source, target = (sgm.parse(list(read_lines(path)), path) for path in (source_path, target_path))
    return zip(source.values(), sgm.in_order(target, source, target_path, source_path), strict=True)


def _refuse_utf16(start: bytes, path: str | os.PathLike[str]) -> None:
    # UTF-32 is tested first because its byte order mark begins with that of UTF-16.
    for name, marks in {"UTF-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE), "UTF-16": _UTF16_BOMS}.items():
        if start.startswith(marks):
            raise DataError(
                f"{path} is {name} by its first bytes; text must be UTF-8. Convert it: "
                f"iconv -f {name} -t UTF-8 OLD > NEW."
            )
    even, odd = start[::2].count(0), start[1::2].count(0)
    if max(even, odd) >= max(_ZEROS[0], _ZEROS[1] * len(start)) and min(even, odd) == 0:
        name = "UTF-16LE" if odd else "UTF-16BE"
        raise DataError(
            f"{path} is {name} by the zero bytes in its first line; text must be UTF-8. Convert it: "
            f"iconv -f {name} -t UTF-8 OLD > NEW."
        )


def _decode(raw: bytes, path: str | os.PathLike[str], number: int) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}, line {number}: byte 0x{raw[error.start]:02x} at column {error.start + 1} is not UTF-8. "
            "Convert the file to UTF-8 (iconv does that), or correct the line."
        ) from None
