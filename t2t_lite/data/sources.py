"""Text from files, plain, gzipped or WMT's .sgm; one line or pair at a time.

A line ends at "\\n" and nowhere else: real corpora hold U+0085 and U+2028 inside a line, where str.splitlines() would
cut and put the two sides of a corpus out of step.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, cast

from t2t_lite.errors import DataError

_BOM = b"\xef\xbb\xbf"


def read_lines(path: str | os.PathLike[str]) -> Iterator[str]:
    """Yields the lines of a UTF-8 file (gzipped if its name ends in .gz), without line ends and byte order mark.

    Raises:
        DataError: no such file, a damaged .gz, or bytes that are not UTF-8 (the message has file and line).
    """
    path = Path(path)
    try:
        with _open(path) as file:
            yield from decode_lines(file, path)
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file.") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path} is not a whole gzip file ({error}). Copy or download it again.") from error
    except (IsADirectoryError, PermissionError) as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error


def decode_lines(file: IO[bytes], name: str | os.PathLike[str]) -> Iterator[str]:
    """Yields the lines of an open binary file, as `read_lines`; `name` is what messages call it."""
    # Iterating over a binary file cuts at b"\n" only.
    for number, raw in enumerate(file, start=1):
        if number == 1:
            raw = raw.removeprefix(_BOM)
        yield _decode(raw.removesuffix(b"\n").removesuffix(b"\r"), name, number)


def read_pairs(source_path: str | os.PathLike[str], target_path: str | os.PathLike[str]) -> Iterator[tuple[str, str]]:
    """Yields (source, target): line N of one file with line N of the other, or the segments of two .sgm files.

    Raises:
        DataError: as read_lines; a file without lines; files of unequal length, found at the end of the shorter one;
            .sgm files with faults, or with different segments.
    """
    if all(os.fspath(path).removesuffix(".gz").endswith(".sgm") for path in (source_path, target_path)):
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
    # A longer file has given one line more than was counted; the rest of it is counted only for the message.
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


def _open(path: Path) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(path, "rb")) if path.name.endswith(".gz") else open(path, "rb")


def _decode(raw: bytes, path: str | os.PathLike[str], number: int) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}, line {number}: byte 0x{raw[error.start]:02x} at column {error.start + 1} is not UTF-8. "
            "Convert the file to UTF-8 (iconv does that), or mend the line."
        ) from None
