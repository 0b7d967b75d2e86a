"""Tables of pairs: .tsv, .csv and .jsonl, the forms they may have, and the message for a damaged row."""

import json
import lzma
import re
from pathlib import Path

import pytest

from t2t_lite.data.tables import has_targets, read_table
from t2t_lite.errors import DataError

PAIRS = [("A dog.", "Ein Hund."), ('He said "no, never".', "Er sagte: „Nein“.")]


def _read(path: Path, text: str) -> list[tuple[str, str]]:
    path.write_bytes(lzma.compress(text.encode()) if path.suffix == ".xz" else text.encode())
    return list(read_table(path, ("en", "de")))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.tsv", "A dog.\tEin Hund.\n" + "\t".join(PAIRS[1])),
        ("a.tsv", "de\ten\nEin Hund.\tA dog.\n\n" + "\t".join(reversed(PAIRS[1])) + "\r\n"),
        ("a.tsv.xz", "id\tsource\ttarget\n1\tA dog.\tEin Hund.\n2\t" + "\t".join(PAIRS[1]) + "\n"),
        ("a.csv", 'A dog.,Ein Hund.\n"He said ""no, never"".",Er sagte: „Nein“.\n'),
        ("a.csv", '\ufeffscore,Target,Source\n1,Ein Hund.,A dog.\r\n,Er sagte: „Nein“.,"He said ""no, never""."\r\n'),
        ("a.jsonl", "\n".join(json.dumps({"translation": {"en": en, "de": de, "fr": ""}}) for en, de in PAIRS)),
        ("a.jsonl", "".join(json.dumps({"id": 1, "de": de, "en": en}) + "\n\n" for en, de in PAIRS)),
        (
            "a.jsonl.xz",
            "".join(json.dumps({"source": en, "target": de}, ensure_ascii=False) + "\n" for en, de in PAIRS),
        ),
    ],
)
def test_forms_that_are_understood(tmp_path: Path, name: str, text: str) -> None:
    assert _read(tmp_path / name, text) == PAIRS


def test_quotes_in_tsv_are_text(tmp_path: Path) -> None:
    assert _read(tmp_path / "a.tsv", '"a\t"b"\n') == [('"a', '"b"')]


def test_line_breaks_in_cells_have_one_form(tmp_path: Path) -> None:
    assert _read(tmp_path / "a.csv", '"a\nb",c\n"d\n\n e",f\n') == [("a\nb", "c"), ("d\n\n e", "f")]
    assert _read(tmp_path / "a.jsonl", '{"en": "a\\r\\nb", "de": "c\\rd"}') == [("a\nb", "c\nd")]


def test_what_the_columns_are_taken_for_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "t2t_lite")
    _read(tmp_path / "a.tsv", "a\tb\nc\td\n")
    assert caplog.messages == [f"{tmp_path}/a.tsv has no header: its first column is taken as en, the second as de."]


def test_a_name_longer_than_any_languages_is_no_header(tmp_path: Path) -> None:
    """Text may be as long as a line; looking for a language in it would take the square of its length."""
    long = f"English ({'x' * 200})"
    assert _read(tmp_path / "a.tsv", f"{long}\tGerman\n") == [(long, "German")]


@pytest.mark.parametrize(
    "header",
    [
        *("deutsch,ENGLISH", "de_DE,en-GB", "deu,eng", "text_de,text_en", "German (Austria),British English"),
        *("Target text,Source text", "id,German,x,English,y"),
    ],
)
@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.jsonl"])
def test_headers_that_name_the_sides(tmp_path: Path, name: str, header: str) -> None:
    names = header.split(",")
    if name == "a.jsonl":
        text = json.dumps({one: "A dog." if one in names[-1:] or one == "English" else "Ein Hund." for one in names})
    else:
        cells = ["1", "Ein Hund.", "x", "A dog.", "y"] if len(names) > 2 else ["Ein Hund.", "A dog."]
        text = "".join(("," if name == "a.csv" else "\t").join(row) + "\n" for row in (names, cells))
    assert _read(tmp_path / name, text) == [PAIRS[0]]
    if len(names) == 2:
        other = "".join("\t".join(reversed(row)) + "\n" for row in (names, ["Ein Hund.", "A dog."]))
        assert _read(tmp_path / "b.tsv", other) == [PAIRS[0]]  # also in the right order it is no pair


@pytest.mark.parametrize(
    ("languages", "header"),
    [
        (("zh", "en"), "English\t中文"),
        (("en", "es"), "Español\tInglés (English)"),
        (("en", "pt_BR"), "Brazilian Portuguese\tEnglish"),
        (("pt_PT", "pt_BR"), "pt-br\tpt-pt"),
        (("ceb", "fil"), "Filipino\tCebuano"),
        (("en", "xx"), "xx\ten"),
    ],
)
def test_headers_of_other_languages(tmp_path: Path, languages: tuple[str, str], header: str) -> None:
    (tmp_path / "a.tsv").write_text(f"{header}\ntarget\tsource\n", "utf-8")
    assert list(read_table(tmp_path / "a.tsv", languages)) == [("source", "target")]


@pytest.mark.parametrize("header", ["French\tEnglish", "fr\ten", "fr_FR\tpt_BR", "Français\tРусский"])
def test_a_header_of_other_languages_is_refused(tmp_path: Path, header: str) -> None:
    with pytest.raises(
        DataError, match=r"a\.tsv: its first row, .*, names two languages that are not en and de\. Rename"
    ):
        _read(tmp_path / "a.tsv", f"{header}\na\tb\n")


@pytest.mark.parametrize("row", ["English\tEnglisch", "it\tes", "German\tDeutsch", "French\tFranzösisch", "no\tnein"])
def test_words_that_are_names_of_languages_are_text(tmp_path: Path, row: str) -> None:
    assert _read(tmp_path / "a.tsv", f"{row}\na\tb\n") == [tuple(row.split("\t")), ("a", "b")]


GOOD = [("a", "b"), ("c", "d")]
EXAMPLE = r"expected {\"translation\": {\"en\": \"...\", \"de\": \"...\"}}, "


@pytest.mark.parametrize(
    ("name", "text", "row", "count", "what"),
    [
        ("a.tsv", "a\tb\nc\td\te\nc\td\nx\n", 2, 2, "columns: 3 instead of 2"),
        ("a.tsv", "x\ty\tz\na\tb\nc\td\n", 1, 1, "columns: 3; expected two, or a header that names en and de"),
        ("a.csv", 'a,b\nc,"d\nc,d\n', 2, 1, r"it is not CSV \(unexpected end of data\)"),
        ("a.csv", 'a,b\nc,"d\nc,"d"\nx,"y"z\n', 2, 2, "it is not CSV"),
        ("a.csv", 'a,b\nc,"d\nc,d\nx,",y\n', 2, 2, "columns: 3 instead of 2, in 3 lines; is a quote not closed"),
        ("a.csv", "a,b\nc," + "d" * 140_000 + "\nc,d\n", 2, 1, "it is not CSV .field larger than field limit .131072"),
        ("a.jsonl", '{"en": "a", "de": "b"}\nnull\n{"en": "c", "de": "d"}\n5', 2, 2, f"it is null; {EXAMPLE}"),
        (
            "a.jsonl",
            '{"en": "a", "de": "b"}\n{"en": "x", "de": null}\n{"en": "c", "de": "d"}',
            2,
            1,
            'it is {"en": "x"',
        ),
        (
            "a.jsonl",
            '{"en": "x\\ud800", "de": ""}\n{"en": "a", "de": "b"}\n{"en": "c", "de": "d"}',
            1,
            1,
            "it has half",
        ),
        ("a.jsonl", '{"en": "a", "de": "b"}\n{"en": "c", "de": "d"}\n{"en": "c"\n', 3, 1, 'it is {"en": "c"; expected'),
    ],
)
def test_damaged_rows_are_counted(tmp_path: Path, name: str, text: str, row: int, count: int, what: str) -> None:
    (tmp_path / name).write_text(text)
    said: list[tuple[str, int]] = []
    assert list(read_table(tmp_path / name, ("en", "de"), lambda *found: said.append(found))) == GOOD
    [(sentence, number)] = said
    assert number == count
    assert re.search(rf"{name}: {count} damaged of {count + 2} rows left out, the first is row {row}: {what}", sentence)
    total = rf"Damaged: {count} of {count + 2} rows\. Correct them, or leave them out: --clean\."
    with pytest.raises(DataError, match=rf"{name}, row {row}: {what}(.|\n)* {total}"):
        _read(tmp_path / name, text)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.tsv", "a\tb\tc\n" * 7, r"row 1: columns: 3; expected two, .* Damaged: 7 of 7 rows\. Correct them\.$"),
        ("a.csv", "a;b\n", r"row 1: columns: 1; expected two"),
        ("a.jsonl", '{"translation": {"en": "a"}}\n' + "{" * 100_000, r"row 1: it is .*; expected .* 2 of 2 rows"),
        (
            "a.json",
            '[\n{"en": "a"}\n]\n',
            r"a\.json does not have an object in each line\. Convert it: jq -c '\.\[\]' OLD",
        ),
        ("a.jsonl", '{\n "en": "a",\n "de": "b"\n}\n', "does not have an object in each line"),
        ("a.tsv", "\n \n", r"a\.tsv holds no rows"),
        ("a.jsonl", "", r"a\.jsonl holds no rows"),
    ],
)
def test_tables_without_a_good_row(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    for leave_out in (None, lambda *found: None):
        with pytest.raises(DataError, match=message):
            list(read_table(tmp_path / name, ("en", "de"), leave_out))


@pytest.mark.parametrize(
    ("name", "text", "there"),
    [
        ("a.tsv", "en\tde\na\tb\n", True),
        ("a.tsv", "a\t\nb\tc\n", True),
        ("a.tsv", "en\na\n", False),
        ("a.tsv", "just a source\n", False),
        ("a.csv", "id,source\n1,a\n", False),
        ("a.csv", "source,target\na,\nb,\n", False),
        ("a.jsonl", '{"translation": {"en": "a"}}\n', False),
        ("a.jsonl", '{"en": "a", "de": null}\n', False),
        ("a.jsonl", '{"en": "a", "de": ""}\n', False),
        ("a.jsonl", '{"source": "a", "target": "b"}\n', True),
    ],
)
def test_tables_without_targets(tmp_path: Path, name: str, text: str, there: bool) -> None:
    (tmp_path / name).write_text(text)
    assert has_targets(tmp_path / name, ("en", "de")) is there
