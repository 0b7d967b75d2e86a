"""Compressed files: .gz, .bz2, .xz and .zst, recognised by their names and read as streams."""

import bz2
import gzip
import lzma
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from t2t_lite.errors import DataError, UsageError
from t2t_lite.files import StrPath

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
_CHUNK = 1 << 16
_ZSTD_WINDOW = 1 << 31  # bytes: the largest window that zstd itself writes (--ultra --long=31)


def split_suffix(name: str) -> tuple[str, str]:
    """Returns the name without the suffix of its compression, and the suffix: ("train.en", ".gz")."""
    suffix = next(filter(name.endswith, SUFFIXES), "")
    return name.removesuffix(suffix), suffix


def read_chunks(path: StrPath) -> Iterator[bytes]:
    """Yields the content of a file, plain or compressed, in pieces of at most 64 kB.

    Raises:
        DataError: there is no such file, or it cannot be read, is damaged or not of the format that its name says.
        UsageError: a .zst file, and zstandard is not installed.
    """
    path = Path(path)
    try:
        with open(path, "rb") as packed:
            if path.suffix in _FORMATS:
                _refuse_other_format(packed.peek(_CHUNK), path)
            if path.suffix == ".zst":
                yield from _unpack_zstd(packed, path)
                return
            opener: Any = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}.get(path.suffix)
            with opener(packed, "rb") if opener else packed as file:
                while chunk := file.read1(_CHUNK):
                    yield chunk
    except (EOFError, lzma.LZMAError, zlib.error) as error:
        raise _damaged(path, error) from error
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file.") from None
    except OSError as error:
        if error.errno is None:  # what gzip and bz2 raise
            raise _damaged(path, error) from error
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error


def _unpack_zstd(file: IO[bytes], path: Path) -> Iterator[bytes]:
    """Yields the content of a .zst file; the library's own reader does not notice that a file was cut off."""
    try:
        import zstandard
    except ImportError:
        raise UsageError(
            f"{path} is read with zstandard, which is not installed. Install it (pip install 't2t-lite[zstd]'), or "
            f"unpack the file (zstd -d {path})."
        ) from None
    new = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).decompressobj
    frame, packed = None, b""
    while packed := packed or file.read(_CHUNK):
        frame = frame or new()
        try:
            content = frame.decompress(packed)
        except zstandard.ZstdError as error:
            raise EOFError(error) from error
        packed, frame = (frame.unused_data, None) if frame.eof else (b"", frame)
        yield from (content[start : start + _CHUNK] for start in range(0, len(content), _CHUNK))
    if frame is not None:
        raise EOFError("it ends too early")


def _damaged(path: Path, error: Exception) -> DataError:
    name = _FORMATS.get(path.suffix, "compressed")
    return DataError(f"{path} is not a whole {name} file ({error}). Copy or download it again.")


def refuse_packed(start: bytes, name: StrPath) -> None:
    """Raises DataError if a text, already unpacked if its name says so, begins as packed files do."""
    if found := _find_format(start):
        suffix = next((suffix for suffix, known in _FORMATS.items() if known == found), "")
        advice = f", or let the name of the file end in {suffix}" if suffix else ""
        raise DataError(f"{name} is no text but packed by {found}, as its first bytes say. Unpack it{advice}.")


def _find_format(start: bytes) -> str | None:
    """Returns the format that the first bytes of a file say."""
    return next((name for name, magic in _FIRST_BYTES.items() if re.match(magic, start, re.DOTALL)), None)


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
