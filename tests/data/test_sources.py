"""Reading lines and pairs: what ends a line, and every fault a file can have, with its message."""

import gzip
from pathlib import Path

import pytest

from t2t_lite.data.sources import read_lines, read_pairs
from t2t_lite.errors import DataError


def _write(path: Path, data: bytes) -> Path:
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.mark.parametrize("name", ["a.en", "a.en.gz"])
@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"one\ntwo\n", ["one", "two"]),
        (b"one\ntwo", ["one", "two"]),
        (b"one\n\n", ["one", ""]),
        (b"\n", [""]),
        (b"", []),
        (b"one\r\ntwo\r\n", ["one", "two"]),
        (b"one\r\r\nt\rwo\r\n", ["one\r", "t\rwo"]),
        (b"\xef\xbb\xbfone\n\xef\xbb\xbftwo\n", ["one", "\ufefftwo"]),
        (
            "a\u0085b\u2028c\u2029d\x0be\x0cf\x1cg\n\u2028\n".encode(),
            ["a\u0085b\u2028c\u2029d\x0be\x0cf\x1cg", "\u2028"],
        ),
        ("Grüße, 世界 🌍\n".encode(), ["Grüße, 世界 🌍"]),
    ],
)
def test_lines(tmp_path: Path, name: str, data: bytes, lines: list[str]) -> None:
    assert list(read_lines(_write(tmp_path / name, data))) == lines


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"one\rtwo\rthree\r", 2),
        (b"\xef\xbb\xbfone\rtwo\r\rthree\n", 2),
        (b"header\n" + b"x\r" * 40, 39),
    ],
)
def test_lines_that_end_in_cr_alone(tmp_path: Path, suffix: str, data: bytes, found: int) -> None:
    path = _write(tmp_path / f"a.en{suffix}", data)
    message = rf"a\.en{suffix} has {found} carriage returns .* Convert it: tr '\\r' '\\n' < OLD > NEW\."
    with pytest.raises(DataError, match=message):
        list(read_lines(path))
    other = _write(tmp_path / "a.de", b"eins\nzwei\ndrei\n")
    for pair in ((path, other), (other, path)):
        with pytest.raises(DataError, match=message):
            list(read_pairs(*pair))


@pytest.mark.commit
def test_a_large_file_that_ends_its_lines_in_cr_alone(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.en", b"x" * 1_000_000 + b"\r" + b"x\r" * 32_000_000)  # more than a line may have
    with pytest.raises(DataError, match=r"a\.en has 31,\d{3},\d{3} carriage returns"):
        list(read_lines(path))


def test_sgml_is_no_text(tmp_path: Path) -> None:
    for text in (
        '<refset setid="x">\n',
        '<?xml version="1.0"?>',
        "\ufeff <!DOCTYPE mteval SYSTEM>",
        "<tstset x>\n<doc>",
    ):
        path = _write(tmp_path / "a.en", text.encode())
        with pytest.raises(DataError, match=r"a\.en is not plain text but a web page, SGML or XML\. Write its text"):
            list(read_lines(path))
        assert list(read_lines(path, sgml=True)) == text.removeprefix("\ufeff").removesuffix("\n").split("\n")
    path = _write(tmp_path / "a.en.gz", b"<!DOCTYPE html>\n<p>Log in</p>\n")
    with pytest.raises(DataError, match=r"a\.en\.gz is not plain text but a web page, SGML or XML"):
        list(read_lines(path))
    text = "<b>source</b> is <html>\n<refset>\n"
    assert list(read_lines(_write(tmp_path / "a.en", text.encode()))) == text.split("\n")[:-1]


def test_a_line_of_a_megabyte(tmp_path: Path) -> None:
    long = "ä b" * 350_000
    assert list(read_lines(_write(tmp_path / "a.en", f"x\n{long}\ny\n".encode()))) == ["x", long, "y"]


def test_undecodable_byte_is_named_with_file_and_line(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.de", b"gut\nsch\xf6n\nEnde\n")
    with pytest.raises(DataError, match=r"a\.de, line 2: byte 0xf6 at column 4 is not UTF-8"):
        list(read_lines(path))


@pytest.mark.parametrize("encoding", ["UTF-16LE", "UTF-16BE"])
@pytest.mark.parametrize("line", ["Hello world\n", "Мы живём в большом доме у реки.\n"])
def test_utf16_without_a_mark_is_named(tmp_path: Path, encoding: str, line: str) -> None:
    (tmp_path / "a").write_bytes(2 * line.encode(encoding))
    with pytest.raises(DataError, match=f"is {encoding} by its first bytes.*iconv -f {encoding} -t UTF-8 OLD > NEW"):
        list(read_lines(tmp_path / "a"))


def test_a_few_zero_bytes_are_text(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a\0b\0\0c\n\0\n")
    assert list(read_lines(tmp_path / "a")) == ["a\0b\0\0c", "\0"]


def test_pairs(tmp_path: Path) -> None:
    en = _write(tmp_path / "a.en.gz", b"one\n\nthree\n")
    de = _write(tmp_path / "a.de", b"eins\r\nzwei\r\ndrei")
    assert list(read_pairs(en, de)) == [("one", "eins"), ("", "zwei"), ("three", "drei")]


@pytest.mark.parametrize(("source", "target"), [(3, 5), (5, 3), (3, 4), (4, 3), (1500, 1)])
def test_unequal_counts_name_both_files_and_counts(tmp_path: Path, source: int, target: int) -> None:
    en, de = _write(tmp_path / "a.en", b"x\n" * source), _write(tmp_path / "a.de", b"y\n" * target)
    pairs = read_pairs(en, de)
    for _ in range(min(source, target)):
        next(pairs)
    with pytest.raises(DataError, match=rf"a\.en has {source:,} lines, but \S*a\.de has {target:,}\. Line N of one"):
        next(pairs)


@pytest.mark.parametrize(
    ("source", "target", "name"), [(b"", b"", "a.en"), (b"", b"y\n", "a.en"), (b"x\ny\n", b"", "a.de")]
)
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_empty_file(tmp_path: Path, source: bytes, target: bytes, name: str, ending: str) -> None:
    en, de = _write(tmp_path / f"a.en{ending}", source), _write(tmp_path / f"a.de{ending}", target)
    with pytest.raises(DataError, match=rf"{name}{ending} is empty; it should have one sentence per line"):
        list(read_pairs(en, de))


def _sgm(kind: str, *segments: str) -> bytes:
    lines = [f'<seg id="{i}">{text}</seg>' for i, text in enumerate(segments, start=1)]
    return f'<{kind} setid="t">\n<doc docid="d">\n{chr(10).join(lines)}\n</doc>\n</{kind}>\n'.encode()


@pytest.mark.parametrize("ending", [".sgm", ".sgm.gz"])
def test_pairs_of_sgm_files(tmp_path: Path, ending: str) -> None:
    en = _write(tmp_path / f"a-src.en{ending}", _sgm("srcset", "Rock &amp; roll", "", "three"))
    de = _write(tmp_path / f"a-ref.de{ending}", _sgm("refset", "Rock'n'Roll", "zwei", "drei"))
    assert list(read_pairs(en, de)) == [("Rock & roll", "Rock'n'Roll"), ("", "zwei"), ("three", "drei")]


def test_sgm_files_with_other_segments(tmp_path: Path) -> None:
    en = _write(tmp_path / "a-src.en.sgm", _sgm("srcset", "one", "two"))
    de = _write(tmp_path / "a-ref.de.sgm", _sgm("refset", "eins"))
    with pytest.raises(DataError, match=r"a-ref\.de\.sgm .*segment 2 of document d.*a-src\.en\.sgm"):
        list(read_pairs(en, de))
