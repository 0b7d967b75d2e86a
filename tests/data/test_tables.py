"""Tables of pairs: .tsv, .csv and .jsonl, the forms they may have, and the message for a damaged row."""

import json
import lzma
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


@pytest.mark.parametrize(
    "header",
    [
        *("German,English", "deutsch,ENGLISH", "Deutsch,English", "de_DE,en_US", "de-AT,en", "deu,eng", "DE,EN"),
        *("German sentence,English sentence", "text_de,text_en", "German (Austria),British English", "ger,en-GB"),
        *("target,source", "tgt,src", "sentence2,sentence1", "Target text,Source text", "id,German,x,English,y"),
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


@pytest.mark.parametrize(
    ("name", "text", "row", "count", "what"),
    [
        ("a.tsv", "a\tb\nc\td\te\nc\td\nx\n", 2, 2, "it has 3 columns, but the first row has 2"),
        ("a.tsv", "x\ty\tz\na\tb\nc\td\n", 1, 1, "it has 3 columns; expected two columns, or a header"),
        ("a.csv", 'a,b\nc,"d\nc,d\n', 2, 1, "it is not CSV (unexpected end of data)"),
        ("a.csv", 'a,b\nc,"d\nc,"d"\nx,"y"z\n', 2, 2, "it is not CSV"),
        ("a.csv", 'a,b\nc,"d\nc,d\nx,",y\n', 2, 2, "it has 3 lines and 3 columns, but the first row has 2"),
        ("a.csv", "a,b\nc," + "d" * 140_000 + "\nc,d\n", 2, 1, "it has a cell of more than 131,072 characters"),
        ("a.jsonl", '{"en": "a", "de": "b"}\nnull\n{"en": "c", "de": "d"}\n5', 2, 2, "it is null; expected"),
        ("a.jsonl", '{"en": "a", "de": "b"}\n{"en": "x", "de": null}\n{"en": "c", "de": "d"}', 2, 1, "'en' or 'de' is"),
        (
            "a.jsonl",
            '{"en": "x\\ud800", "de": ""}\n{"en": "a", "de": "b"}\n{"en": "c", "de": "d"}',
            1,
            1,
            "it has half",
        ),
        ("a.jsonl", '{"en": "a", "de": "b"}\n{"en": "c", "de": "d"}\n{"en": "c"\n', 3, 1, "it is not JSON"),
    ],
)
def test_damaged_rows_are_counted(tmp_path: Path, name: str, text: str, row: int, count: int, what: str) -> None:
    (tmp_path / name).write_text(text)
    said: list[tuple[str, int]] = []
    assert list(read_table(tmp_path / name, ("en", "de"), lambda *found: said.append(found))) == GOOD
    [(sentence, number)] = said
    rows = "1 damaged row left out, it is" if count == 1 else f"{count} damaged rows left out, the first is"
    assert number == count
    assert sentence.startswith(f"{tmp_path / name}: {rows} row {row}: {what}")
    with pytest.raises(DataError) as error:
        _read(tmp_path / name, text)
    assert str(error.value).startswith(f"{tmp_path / name}, row {row}: {what}")
    assert (f"{count - 1} more of {count + 2} rows is damaged: row" in str(error.value)) == (count > 1)
    assert "leave damaged rows out: --clean" in str(error.value)


def test_what_to_do_about_damaged_rows(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("a\tb\n" * 50 + "a\tb\tc\n" * 7)
    with pytest.raises(
        DataError, match=r"row 51: .* 6 more of 57 rows are damaged: row 52, 53, 54, \.\.\.\. Correct them, "
    ) as e:
        list(read_table(tmp_path / "a.tsv", ("en", "de")))
    assert str(e.value).endswith(r"or leave damaged rows out: --clean, or awk -F'\t' 'NF==2' OLD > NEW.")
    (tmp_path / "a.tsv").write_text("a\tb\tc\n" * 7)  # nothing is left
    with pytest.raises(DataError, match=r"row 1: it has 3 columns; expected two columns, .* 6 more of 7 rows"):
        list(read_table(tmp_path / "a.tsv", ("en", "de"), lambda *found: None))


@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
@pytest.mark.parametrize(
    ("text", "what", "values"),
    [
        ('[\n{"en": "a"}\n]\n', "a JSON array", r"\.\[\]"),
        ('[{"en": "a", "de": "b"}, {"en": "a", "de": "b"}]', "a JSON array", r"\.\[\]"),
        ('{\n "en": "a",\n "de": "b"\n}\n', "one JSON object over several lines", r"\."),
        ('{"data": [\n{"en": "a", "de": "b"}\n]}', "one JSON object over several lines", r"\.data\[\]"),
    ],
)
def test_json_that_is_not_an_object_a_line(tmp_path: Path, name: str, text: str, what: str, values: str) -> None:
    with pytest.raises(DataError, match=rf"{name} is {what}; expected an object .* jq -c '{values}' OLD > NEW\."):
        _read(tmp_path / name, text)


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


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.tsv", "a\tb\nc\td\te\n", r"a\.tsv, row 2: it has 3 columns, but the first row has 2"),
        ("a.tsv", "en\tde\na b\n", r"row 2: it has 1 column, but the first row has 2"),
        (
            "a.tsv",
            "a\tb\tc\n",
            r"row 1: it has 3 columns; expected two columns, or a header that names en and de, or so",
        ),
        ("a.csv", "a;b\n", r"row 1: it has 1 column; expected two columns"),
        ("a.csv", 'a,b\nc,"d\ne,f\n', r"a\.csv, row 2: it is not CSV \(.*\); expected cells with commas between"),
        ("a.csv", 'a,b\nc,"d"e\n', r"row 2: it is not CSV"),
        (
            "a.csv",
            "a,b\nc," + "d" * 140_000,
            r"row 2: .* more than 131,072 characters.* give the data as \.jsonl, which",
        ),
        (
            "a.jsonl",
            '{"en": "a", "de": "b"}\n{"en": "a"\n',
            r"row 2: it is not JSON \(.*; expected {\"translation\": {",
        ),
        ("a.jsonl", "[" * 100_000, r"row 1: it is not JSON"),
        ("a.jsonl", '{"anglais": "a", "de": "b"}', r"row 1: its keys are 'anglais', 'de'; expected .*{\"en\": \"...\""),
        ("a.jsonl", '{"translation": {"en": "a"}}', r"row 1: its keys are 'en'; expected"),
        ("a.jsonl", '{"en": null, "de": "b"}', r"row 1: 'en' or 'de' is not a text"),
        ("a.jsonl", '["a", "b"]', r'row 1: it is \["a", "b"\]; expected'),
        ("a.jsonl", '{"en": "a\\ud800", "de": "b"}', r"row 1: it has half a character \(\\ud800\)"),
        ("a.tsv", "\n \n", r"a\.tsv holds no rows"),
        ("a.csv", "en,de\n", r"a\.csv holds no rows"),
        ("a.jsonl", "", r"a\.jsonl holds no rows"),
    ],
)
def test_a_damaged_row_is_named(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        _read(tmp_path / name, text)
