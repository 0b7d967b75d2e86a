"""Compressed files: .gz, .bz2, .xz and .zst, recognised by their names and read as streams."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

from t2t_lite.errors import DataError, UsageError

SUFFIXES = (".gz", ".bz2", ".xz", ".zst")
_FORMATS = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "Zstandard"}
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
        DataError: there is no such file, or it cannot be read or is damaged; also raised while the file is read.
        UsageError: a .zst file, and zstandard is not installed.
    """
    path = Path(path)
    try:
        with _open(path) as file:
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


def _open(path: Path) -> IO[bytes]:
    if path.suffix == ".gz":
        return cast(IO[bytes], gzip.open(path, "rb"))
    if path.suffix == ".bz2":
        return bz2.open(path, "rb")
    if path.suffix == ".xz":
        return lzma.open(path, "rb")
    if path.suffix == ".zst":
        return io.BufferedReader(_ZstdFile(path), _CHUNK)
    return open(path, "rb")


class _ZstdFile(io.RawIOBase):
    """The content of a .zst file; the library's own reader does not notice that a file was cut off."""

    def __init__(self, path: Path) -> None:
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
        self._file = open(path, "rb")  # noqa: SIM115 (close() closes it)

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

    def close(self) -> None:
        if not self.closed and hasattr(self, "_file"):
            self._file.close()
        super().close()

    def _unpack(self, packed: bytes) -> None:
        frame = self._frame = self._frame or self._new()
        try:
            self._ready = memoryview(frame.decompress(packed))
        except self._error as error:
            raise EOFError(error) from error
        if frame.eof:
            self._frame, self._packed = None, frame.unused_data
