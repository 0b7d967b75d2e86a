"""Compressed files: each format is read, also when concatenated, and refused when damaged."""

import bz2
import gzip
import lzma
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from t2t_lite.data.compressed import open_binary
from t2t_lite.data.sources import read_lines
from t2t_lite.errors import DataError, UsageError

PACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}
LINES = [f"Zeile {i * i * i:b}" for i in range(6_000)]
TEXT = "".join(f"{line}\n" for line in LINES).encode()


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


def test_a_zst_file_that_unpacks_to_much_is_not_copied_at_each_read(tmp_path: Path) -> None:
    size = 1 << 25
    path = tmp_path / "a.zst"
    path.write_bytes(PACK[".zst"](bytes(size)))
    with open_binary(path) as file:
        assert file.read(1) == b"\0"
        tracemalloc.start()
        assert file.read(1 << 16) == bytes(1 << 16)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < size // 8  # a copy of what is left would be nearly all of it


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize(
    "damage", [lambda data: data[:-20], lambda data: data[: len(data) // 2], lambda data: b"text" * 9]
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
