"""Ranges of lines: the same pairs as reading the files from the start, wherever ranges end."""

import gzip
import itertools
from pathlib import Path

import pytest

from t2t_lite.data import line_ranges
from t2t_lite.data.line_ranges import LineRange, divide
from t2t_lite.data.sources import read_pairs
from t2t_lite.errors import DataError
from t2t_lite.problem import LineFiles

# Characters of one to four bytes, line separators of other tools, empty lines and blank ones.
LINES = ["", "größe", "猫が好き", "\U0001f600" * 9, "a\u2028b\x85c", "  x ", "\r", "a\rb", "long " * 40]


def _files(folder: Path, ends: tuple[str, str] = ("\n", "\n"), last: tuple[str, str] = ("", "")) -> LineFiles:
    """Two files of 300 lines; `ends` end lines, and `last` the last one."""
    paths = (folder / "train.en", folder / "train.de")
    for side, path in enumerate(paths):
        lines = [LINES[(i * (side + 2)) % len(LINES)].rstrip("\r" if ends[side] == "\r\n" else "") for i in range(300)]
        lines[-1] = "the end"
        mark = b"\xef\xbb\xbf" if side else b""
        path.write_bytes(mark + ends[side].join(lines).encode() + last[side].encode())
    return LineFiles(paths, ("en", "de"), names=("train.en", "train.de"))


def _divide(monkeypatch: pytest.MonkeyPatch, files: list[LineFiles], size: int, block: int) -> list[LineRange] | None:
    monkeypatch.setattr(line_ranges, "RANGE_BYTES", size)
    monkeypatch.setattr(line_ranges, "_BLOCK", block)
    return divide(files)


@pytest.mark.parametrize(("size", "block"), [(1, 1), (7, 5), (100, 64), (1000, 7), (1 << 20, 1 << 16)])
@pytest.mark.parametrize("ends", [("\n", "\n"), ("\r\n", "\n"), ("\r\n", "\r\n")])
@pytest.mark.parametrize("last", [("", ""), ("\n", ""), ("\n", "\n")])
def test_ranges_hold_the_pairs_of_the_files_in_order(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    size: int,
    block: int,
    ends: tuple[str, str],
    last: tuple[str, str],
) -> None:
    files = _files(tmp_path, ends, last)
    ranges = _divide(monkeypatch, [files, files], size, block)
    assert ranges is not None
    assert len(ranges) > 2 or size == 1 << 20
    wanted = list(read_pairs(*files.paths))
    assert [pair for part in ranges for pair in part.read()] == wanted * 2
    numbers = [part.before + part.first + i for part in ranges for i in range(part.lines)]
    assert numbers == [*range(1, len(wanted) * 2 + 1)]
    assert ranges[-1].place(1, 0) == f"train.de, line {ranges[-1].first}"


def test_labels_are_put_before_sources_with_text(tmp_path: Path) -> None:
    for name, text in (("a", "x\n\n  \n"), ("b", "1\n2\n3\n")):
        (tmp_path / name).write_text(text)
    ranges = divide([LineFiles((tmp_path / "a", tmp_path / "b"), ("en", "de"), ">>de<<")])
    assert ranges is not None
    assert list(itertools.chain.from_iterable(part.read() for part in ranges)) == [
        (">>de<< x", "1"),
        ("", "2"),
        ("  ", "3"),
    ]


@pytest.mark.parametrize("fault", ["packed", "unequal", "empty", "missing", "returns"])
def test_files_that_must_be_read_as_a_whole_have_no_ranges(tmp_path: Path, fault: str) -> None:
    files = _files(tmp_path)
    source, target = files.paths
    if fault == "packed":
        packed = tmp_path / "train.de.gz"
        packed.write_bytes(gzip.compress(target.read_bytes()))
        files = LineFiles((source, packed), ("en", "de"))
    elif fault == "unequal":
        target.write_bytes(target.read_bytes() + b"\nx")
    elif fault == "empty":
        source.write_bytes(b"")
        target.write_bytes(b"")
    elif fault == "missing":
        target.unlink()
    else:
        for path in files.paths:
            path.write_bytes(path.read_bytes().replace(b"\n", b"\r"))
    assert divide([files]) is None


def test_a_byte_that_is_not_utf_8_is_named_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = _files(tmp_path)
    lines = files.paths[1].read_bytes().split(b"\n")
    lines[200] = b"caf\xe9"
    files.paths[1].write_bytes(b"\n".join(lines))
    ranges = _divide(monkeypatch, [files], 100, 64)
    assert ranges is not None
    with pytest.raises(DataError, match=r"train\.de, line 201: byte 0xe9 at column 4 is not UTF-8"):
        list(itertools.chain.from_iterable(part.read() for part in ranges))


def test_a_file_that_changes_meanwhile_is_an_error(tmp_path: Path) -> None:
    files = _files(tmp_path)
    ranges = divide([files])
    assert ranges is not None
    files.paths[0].write_bytes(files.paths[0].read_bytes() + b"x")
    with pytest.raises(DataError, match=r"train\.en has changed while it was read"):
        list(ranges[0].read())
    files.paths[0].unlink()
    with pytest.raises(DataError, match=r"train\.en cannot be read: No such file"):
        list(ranges[0].read())
