"""Text from files, plain, compressed or WMT's .sgm; one line or pair at a time.

A line ends only at "\\n". Real corpora hold U+0085 and U+2028 inside a line; str.splitlines() would cut there, and the
lines of the two sides would no longer match.
"""

import codecs
import operator
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from t2t_lite.data.compressed import read_chunks, refuse_packed, split_suffix
from t2t_lite.errors import DataError
from t2t_lite.files import StrPath

MAX_LINE = 64_000_000  # bytes; a packed file of 1 MB may hold a line of 6 GB
_CHUNK = 1 << 16  # bytes
_BOM = b"\xef\xbb\xbf"
# By their first bytes, UTF-32 before UTF-16, whose byte order mark it begins with.
_BOMS = {
    "UTF-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
    "UTF-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
}
_ZEROS = 3, 0.05  # at least so many, and this share, in a first line of UTF-16: one in each ASCII letter and blank
_RETURN = re.compile(rb"\r(?=[^\r\n])")  # that has text after it in its line
_RETURNS_PER_LINE = 5  # with more of them, carriage returns are the line ends
_MARKUP = re.compile(
    rb"\s*<(?:\?xml\s|!doctype\s+(?:html|mteval|src|ref|tst)|(?:src|ref|tst)set\b|mteval\b)", re.IGNORECASE
)


def read_lines(path: StrPath, *, sgml: bool = False) -> Iterator[str]:
    """Yields the lines of a UTF-8 file, without line ends and byte order mark; .gz, .bz2, .xz and .zst are unpacked.

    Args:
        sgml: whether the lines may be of WMT's SGML.

    Raises:
        DataError: no such file, a damaged one, or one that is not text of lines in UTF-8 (the message has file and
            line): other encodings, packed files with other names, lines that end in CR alone or of more than MAX_LINE.
        UsageError: a .zst file, and zstandard is not installed.
    """
    yield from _decode_chunks(read_chunks(path), path, sgml)


def read_span(path: StrPath, start: int, end: int, first: int) -> Iterator[str]:
    """Yields the lines of the bytes from `start` to `end` of a plain file, as `read_lines`; `first` is the number of
    the first one, from 1. Whether carriage returns end the lines of the file is not asked."""
    yield from map(operator.itemgetter(0), _decode_raw(_raw_lines(_read_bytes(path, start, end), path), path, first))


def _read_bytes(path: StrPath, start: int, end: int) -> Iterator[bytes]:
    with open(path, "rb") as file:
        file.seek(start)
        while start < end and (chunk := file.read(min(_CHUNK, end - start))):
            start += len(chunk)
            yield chunk


def decode_lines(file: IO[bytes], name: StrPath) -> Iterator[str]:
    """Yields the lines of an open binary file, as `read_lines`; messages call the file `name`."""
    return _decode_chunks(iter(lambda: file.read1(_CHUNK), b""), name)  # type: ignore[attr-defined]


def _decode_chunks(chunks: Iterable[bytes], name: StrPath, sgml: bool = False) -> Iterator[str]:
    count = returns = 0
    for line, found in _decode_raw(_raw_lines(chunks, name), name, 1, sgml):
        count, returns = count + 1, returns + found
        yield line
    _refuse_returns(count, returns, name)


def _decode_raw(lines: Iterable[bytes], name: StrPath, first: int, sgml: bool = False) -> Iterator[tuple[str, int]]:
    """Yields each line decoded, and how many carriage returns are in it; the number of the first line is `first`."""
    for number, raw in enumerate(lines, start=first):
        line = raw.removesuffix(b"\r")
        if number == 1:
            _refuse_start(raw, name, sgml)
            line = line.removeprefix(_BOM)
        yield _decode(line, name, number), len(_RETURN.findall(line)) if b"\r" in line else 0


def _raw_lines(chunks: Iterable[bytes], name: StrPath) -> Iterator[bytes]:
    """Yields the lines without b"\\n"; DataError for one of more than MAX_LINE bytes, of which the rest is not read."""
    parts: list[bytes] = []  # of a line that has not ended
    count = size = 0
    for chunk in chunks:
        *lines, rest = chunk.split(b"\n")
        if lines:
            yield b"".join([*parts, lines[0]])
            yield from lines[1:]
            parts, size, count = [], 0, count + len(lines)
        parts.append(rest)
        size += len(rest)
        if size > MAX_LINE:
            line = b"".join(parts)
            _refuse_start(line, name, sgml=True)
            _refuse_returns(count + 1, line.count(b"\r"), name)
            raise DataError(
                f"{name}, line {count + 1:,}: the line has more than {MAX_LINE // 1_000_000} MB; text should have one "
                "sentence per line. Break it into lines, or correct the file."
            )
    if size:
        yield b"".join(parts)


def read_pairs(source_path: StrPath, target_path: StrPath) -> Iterator[tuple[str, str]]:
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


def _read_segments(source_path: StrPath, target_path: StrPath) -> Iterator[tuple[str, str]]:
    from t2t_lite.data import sgm  # seldom needed

    source, target = (sgm.parse(list(read_lines(path, sgml=True)), path) for path in (source_path, target_path))
    return zip(source.values(), sgm.in_order(target, source, target_path, source_path), strict=True)


def _refuse_start(start: bytes, name: StrPath, sgml: bool) -> None:
    """Raises DataError if the first line shows that a file is no text of lines in UTF-8."""
    refuse_packed(start, name)
    if encoding := _find_encoding(start):
        raise DataError(
            f"{name} is {encoding} by its first bytes; text must be UTF-8. Convert it: "
            f"iconv -f {encoding} -t UTF-8 OLD > NEW."
        )
    if not sgml and _MARKUP.match(start.removeprefix(_BOM)):
        raise DataError(
            f"{name} is not plain text but a web page, SGML or XML. Write its text to a file, one segment per line; "
            "t2t-lite-eval reads WMT's SGML with --sgm."
        )


def _find_encoding(start: bytes) -> str | None:
    """Returns UTF-32 or UTF-16 if a first line is so encoded, with a byte order mark or without."""
    for name, marks in _BOMS.items():
        if start.startswith(marks):
            return name
    even, odd = start[::2].count(0), start[1::2].count(0)
    if max(even, odd) >= max(_ZEROS[0], _ZEROS[1] * len(start)) and min(even, odd) == 0:
        return "UTF-16LE" if odd else "UTF-16BE"
    return None


def returns_end_lines(count: int, returns: int) -> bool:
    """Whether a file of `count` lines has so many carriage returns in them that these must be its line ends."""
    return returns > 1 and returns > _RETURNS_PER_LINE * (count - 1)


def _refuse_returns(count: int, returns: int, name: StrPath) -> None:
    if returns_end_lines(count, returns):
        raise DataError(
            f"{name} has {returns:,} carriage returns (CR), but line feeds (LF) must end its lines. Convert it: "
            r"tr '\r' '\n' < OLD > NEW."
        )


def _decode(raw: bytes, path: StrPath, number: int) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}, line {number}: byte 0x{raw[error.start]:02x} at column {error.start + 1} is not UTF-8. "
            "Convert the file to UTF-8 (iconv does that), or correct the line."
        ) from None
