"""Compressed files: .gz, .bz2, .xz and .zst, recognised by their names and read as streams."""

from __future__ import annotations

import bz2
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
_FIRST_BYTES = {
    "gzip": rb"\x1f\x8b",
    "bzip2": rb"BZh.1AY&SY",
    "xz": rb"\xfd7zXZ\0",
    "Zstandard": rb"\x28\xb5\x2f\xfd",
    "zip": rb"PK\x03\x04",
    "7z": rb"7z\xbc\xaf\x27\x1c",
    "rar": rb"Rar!\x1a\x07",
    "compress": rb"\x1f\x9d",
    "tar": rb".{257}ustar",
}
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
        with open(path, "rb") as packed, _open_packed(packed, path) as file:
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
    if found := _find_format(start):
        suffix = next((suffix for suffix, known in _FORMATS.items() if known == found), "")
        advice = f", or let the name of the file end in {suffix}" if suffix else ""
        raise DataError(f"{name} is no text but packed by {found}, as its first bytes say. Unpack it{advice}.")


def _find_format(start: bytes) -> str | None:
    """Returns the format that the first bytes of a file say."""
    return next((name for name, magic in _FIRST_BYTES.items() if re.match(magic, start, re.DOTALL)), None)


def _open_packed(file: io.BufferedReader, path: Path) -> IO[bytes]:
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
    """Raises DataError if a file with the suffix of a format begins as text or another format does."""
    found, wanted = _find_format(start), _FORMATS[path.suffix]
    if found is None and start and not _CONTROL.search(start):
        raise DataError(
            f"{path} is not packed by {wanted}, but plain text or a web page. Call it {path.stem}; if it was "
            "downloaded, look at it and download it again."
        )
    if found not in (None, wanted):
        raise DataError(f"{path} is packed by {found}, not by {wanted}, as its first bytes say. Unpack or rename it.")


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
