"""Compressed files: each format is read, also when concatenated, and refused when damaged."""

import bz2
import gzip
import io
import lzma
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from t2t_lite.data.sources import decode_lines, read_lines
from t2t_lite.errors import DataError, UsageError

PACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}
LINES = [f"Zeile {i * i * i:b}" for i in range(6_000)]
TEXT = "".join(f"{line}\n" for line in LINES).encode()


@pytest.mark.commit
@pytest.mark.parametrize("suffix", PACK)
def test_whole_files(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.de{suffix}"
    path.write_bytes(PACK[suffix](TEXT))
    assert list(read_lines(path)) == LINES
    path.write_bytes(PACK[suffix](TEXT[:1000]) + PACK[suffix](TEXT[1000:]))  # as `cat a.xz b.xz` makes them
    assert list(read_lines(path)) == LINES
    path.write_bytes(PACK[suffix](b""))
    assert list(read_lines(path)) == []


def test_a_zst_file_with_a_large_window(tmp_path: Path) -> None:
    """`zstd --long=28` and above; zstandard refuses windows above 128 MiB by default."""
    path = tmp_path / "a.de.zst"
    parameters = zstandard.ZstdCompressionParameters(window_log=28)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    path.write_bytes(packer.compress(TEXT) + packer.flush())  # of unknown length, so the frame names its window
    assert zstandard.get_frame_parameters(path.read_bytes()).window_size == 1 << 28
    assert list(read_lines(path)) == LINES


@pytest.mark.commit
@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize(
    "damage", [lambda data: data[:-20], lambda data: data[: len(data) // 2], lambda data: b"\0text" * 9]
)
def test_damaged_files(tmp_path: Path, suffix: str, damage: Callable[[bytes], bytes]) -> None:
    path = tmp_path / f"a.de{suffix}"
    path.write_bytes(damage(PACK[suffix](TEXT)))
    with pytest.raises(
        DataError, match=rf"a\.de\{suffix} is not a whole \w+ file \(.*\)\. Copy or download it again\."
    ):
        list(read_lines(path))


@pytest.mark.parametrize("suffix", PACK)
def test_missing_files_and_folders(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(DataError, match="there is no such file"):
        list(read_lines(tmp_path / f"a{suffix}"))
    (tmp_path / f"b{suffix}").mkdir()
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        list(read_lines(tmp_path / f"b{suffix}"))


def test_zst_without_its_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.zst"
    path.write_bytes(PACK[".zst"](TEXT))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(UsageError, match=r"pip install 't2t-lite\[zstd\]'\), or unpack the file \(zstd -d "):
        list(read_lines(path))


@pytest.mark.parametrize("encoding", ["UTF-16", "UTF-32"])
@pytest.mark.parametrize("order", ["LE", "BE"])
def test_other_encodings_are_named(tmp_path: Path, encoding: str, order: str) -> None:
    path = tmp_path / "a.de.gz"
    path.write_bytes(gzip.compress("\ufeffGrüße\n".encode(f"{encoding}-{order}")))
    with pytest.raises(DataError, match=rf"is {encoding} by its first bytes.*iconv -f {encoding} -t UTF-8 OLD > NEW"):
        list(read_lines(path))


NAMES = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "Zstandard"}
OTHERS = {
    **{NAMES[suffix]: pack(TEXT) for suffix, pack in PACK.items()},
    "zip": b"PK\x03\x04\x14\0\x08\x08" + TEXT,
    "7z": b"7z\xbc\xaf\x27\x1c\0\4",
    "rar": b"Rar!\x1a\x07\1\0",
    "compress": b"\x1f\x9d\x90a",
}


@pytest.mark.commit
@pytest.mark.parametrize("other", OTHERS)
def test_packed_files_with_another_name(tmp_path: Path, other: str) -> None:
    packed = OTHERS[other]
    suffix = next((suffix for suffix, name in NAMES.items() if name == other), "")
    advice = rf"Unpack it, or let the name of the file end in \{suffix}\." if suffix else r"Unpack it\."
    known = rf"is no text but packed by {other}, as its first bytes say\. {advice}$"
    (tmp_path / "train.de").write_bytes(packed)
    with pytest.raises(DataError, match=rf"train\.de {known}"):
        list(read_lines(tmp_path / "train.de"))
    with pytest.raises(DataError, match=f"standard input {known}"):
        list(decode_lines(io.BytesIO(packed), "standard input"))
    (tmp_path / "twice.de.gz").write_bytes(gzip.compress(packed))
    with pytest.raises(DataError, match=rf"twice\.de\.gz {known}"):
        list(read_lines(tmp_path / "twice.de.gz"))
    for wrong, name in NAMES.items():
        if name != other:
            (tmp_path / f"a.de{wrong}").write_bytes(packed)
            with pytest.raises(DataError, match=f"packed by {other}, not by {name}, as its first bytes say"):
                list(read_lines(tmp_path / f"a.de{wrong}"))


@pytest.mark.parametrize(
    "text", ["Zeile\n" * 9_000, "Füße 世界\u2028\r\n" * 9_000, "\ufeffa", "<!DOCTYPE html>\n<p>404"]
)
def test_text_with_the_suffix_of_packed_files(tmp_path: Path, text: str) -> None:
    for suffix in PACK:
        path = tmp_path / f"a.de{suffix}"
        path.write_text(text, "utf-8")
        with pytest.raises(DataError, match=r"but plain text or a web page\. Call it a\.de; if"):
            list(read_lines(path))


@pytest.mark.commit
def test_a_tar_archive(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(TEXT)
    with tarfile.open(tmp_path / "a.de.gz", "w:gz") as archive:
        archive.add(tmp_path / "a.txt", "a.txt")
    with pytest.raises(
        DataError, match=r"a\.de\.gz is no text but packed by tar, as its first bytes say\. Unpack it\."
    ):
        list(read_lines(tmp_path / "a.de.gz"))


def test_text_that_begins_like_a_packed_file(tmp_path: Path) -> None:
    (tmp_path / "a.de").write_text("BZh9 ist ein Name.\nPK\n")
    assert list(read_lines(tmp_path / "a.de")) == ["BZh9 ist ein Name.", "PK"]


@pytest.mark.commit
@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
def test_a_line_that_would_fill_the_memory(tmp_path: Path, suffix: str) -> None:
    """90 kB of .gz hold it; at bbf9e70 it was read into the memory, however long it was."""
    pack = {"": bytes, ".gz": lambda data: gzip.compress(data, 1), ".xz": lambda data: lzma.compress(data, preset=0)}
    path = tmp_path / f"a.de{suffix}"
    path.write_bytes(pack[suffix](b"kurz\n" + b"a" * 64_000_001))
    lines = read_lines(path)
    assert next(lines) == "kurz"
    with pytest.raises(DataError, match=r"a\.de\S*, line 2: the line has more than 64 MB; text should have one"):
        next(lines)
