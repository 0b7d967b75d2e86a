"""Compressed files: .gz, .bz2, .xz and .zst, recognised by their names and read as streams."""

from __future__ import annotations

import bz2
import codecs
import contextlib
import gzip
import io
import lzma
import os
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

from t2t_lite.errors import DataError, UsageError

SUFFIXES = (".gz", ".bz2", ".xz", ".zst")
_FORMATS = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "Zstandard"}
# First bytes of packed files: the format, and the suffix by which it is read here ("": it is not).
_FIRST_BYTES = {
    b"\x1f\x8b": ("gzip", ".gz"),
    b"BZh": ("bzip2", ".bz2"),
    b"\xfd7zXZ\0": ("xz", ".xz"),
    b"\x28\xb5\x2f\xfd": ("Zstandard", ".zst"),
    b"PK\x03\x04": ("zip", ""),
    b"7z\xbc\xaf\x27\x1c": ("7z", ""),
    b"Rar!\x1a\x07": ("rar", ""),
    b"\x1f\x9d": ("compress", ""),
}
_BZIP2_BLOCK = b"1AY&SY"  # after BZh and a digit; a text may begin with BZh
_TAR = slice(257, 262), b"ustar"
_WEB_PAGE = re.compile(rb"\s*<(?:!doctype\s+html|html|head)\b", re.IGNORECASE)
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x7f]")  # bytes that text does not have
_CHUNK = 1 << 14
_ZSTD_WINDOW = 1 << 31  # bytes: the largest window that zstd itself writes (--ultra --long=31)


def split_suffix(name: str) -> tuple[str, str]:
    """Returns the name without the suffix of its compression, and the suffix: ("train.en", ".gz")."""
    suffix = next(filter(name.endswith, SUFFIXES), "")
    return name.removesuffix(suffix), suffix


@contextlib.contextmanager
def open_binary(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Opens a file, plain or compressed, for reading.

    Raises:
        DataError: there is no such file, or it cannot be read, is damaged or not of the format that its name says; also
            raised while the file is read.
        UsageError: a .zst file, and zstandard is not installed.
    """
    path = Path(path)
    try:
        with open(path, "rb") as packed, _unpacked(packed, path) as file:
            yield file
    except (EOFError, lzma.LZMAError, zlib.error) as error:
        raise _damaged(path, error) from error
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file.") from None
    except OSError as error:
        if error.errno is None:  # what gzip and bz2 raise
            raise _damaged(path, error) from error
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error


def _damaged(path: Path, error: Exception) -> DataError:
    name = _FORMATS.get(path.suffix, "compressed")
    return DataError(f"{path} is not a whole {name} file ({error}). Copy or download it again.")


def refuse_packed(start: bytes, name: str | os.PathLike[str]) -> None:
    """Raises DataError if a text, already unpacked if its name says so, begins as packed files do."""
    if start[_TAR[0]] == _TAR[1]:
        raise DataError(f"{name} is a tar archive, not a text. Unpack it (tar -xf) and give the files in it.")
    if (found := _format(start)) is None:
        return
    packed = f"{name} is packed by {found[0]} (its first bytes say so)"
    if not found[1]:
        raise DataError(f"{packed}, which is not read here. Unpack it.")
    if not os.path.exists(name):  # standard input, for example
        raise DataError(f"{packed}. Unpack it first, or give a file whose name ends in {found[1]}.")
    if split_suffix(os.fspath(name))[1]:
        raise DataError(f"{name} is packed twice: the text in it is packed by {found[0]}, too. Unpack it once.")
    raise DataError(f"{packed}; call it {Path(name).name}{found[1]}.")


def _format(start: bytes) -> tuple[str, str] | None:
    """Returns the format that a file's first bytes say, and its suffix."""
    found = next((value for magic, value in _FIRST_BYTES.items() if start.startswith(magic)), None)
    return None if found == ("bzip2", ".bz2") and start[4:10] != _BZIP2_BLOCK else found


def _unpacked(file: io.BufferedReader, path: Path) -> IO[bytes]:
    """Returns the content of an open file; `path` says how it is packed."""
    if path.suffix not in SUFFIXES:
        return file
    _refuse_other_format(file.peek(_CHUNK), path)
    if path.suffix == ".gz":
        return cast(IO[bytes], gzip.open(file, "rb"))
    if path.suffix == ".bz2":
        return bz2.open(file, "rb")
    if path.suffix == ".xz":
        return lzma.open(file, "rb")
    return io.BufferedReader(_ZstdFile(file, path), _CHUNK)


def _refuse_other_format(start: bytes, path: Path) -> None:
    """Raises DataError if a file with the suffix of a format begins as text, a web page or another format does."""
    name, wanted = path.name.removesuffix(path.suffix), _FORMATS[path.suffix]
    found = _format(start)
    if found is not None and found[1] != path.suffix:
        advice = f"call it {name}{found[1]}" if found[1] else "unpack it"
        raise DataError(f"{path} is packed by {found[0]} (its first bytes say so), not by {wanted}; {advice}.")
    if _WEB_PAGE.match(start):
        raise DataError(
            f"{path} is a web page, not a file packed by {wanted}: its download failed, or asked for something. Look "
            "at it with a browser, and download the file again."
        )
    if found is None and start and _is_text(start):
        raise DataError(f"{path} is not packed; it looks like plain text: call it {name}.")


def _is_text(start: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)  # the last character may be cut
    except UnicodeDecodeError:
        return False
    return _CONTROL.search(start) is None


class _ZstdFile(io.RawIOBase):
    """The content of a .zst file; the library's own reader does not notice that a file was cut off."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        try:
            import zstandard
        except ImportError:
            raise UsageError(
                f"{path} is read with zstandard, which is not installed. Install it (pip install 't2t-lite[zstd]'), or "
                f"unpack the file (zstd -d {path})."
            ) from None
        self._error: type[Exception] = zstandard.ZstdError
        self._new = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).decompressobj
        self._frame: Any = None
        self._packed = b""  # compressed bytes of the next frames
        self._ready = memoryview(b"")  # unpacked bytes; a view, as slices of bytes would copy all that is left
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            packed = self._packed or self._file.read(_CHUNK)
            self._packed = b""
            if not packed:
                if self._frame is not None:
                    raise EOFError("it ends too early")
                return 0
            self._unpack(packed)
        count = min(len(buffer), len(self._ready))
        buffer[:count], self._ready = self._ready[:count], self._ready[count:]
        return count

    def _unpack(self, packed: bytes) -> None:
        frame = self._frame = self._frame or self._new()
        try:
            self._ready = memoryview(frame.decompress(packed))
        except self._error as error:
            raise EOFError(error) from error
        if frame.eof:
            self._frame, self._packed = None, frame.unused_data
