"""Tables of pairs: .tsv, .csv and .jsonl, the forms they may have, and the message for a damaged row."""

import json
import lzma
from pathlib import Path

import pytest

from t2t_lite.data.tables import read_table
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


def test_line_breaks_become_spaces_and_that_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert _read(tmp_path / "a.csv", '"a\nb",c\n"d\n\n e",f\n') == [("a b", "c"), ("d  e", "f")]
    assert _read(tmp_path / "a.jsonl", '{"en": "a\\r\\nb", "de": "c\\rd"}') == [("a b", "c d")]
    assert [message.partition(", row 1: ")[2][:34] for message in caplog.messages if "a.csv, row" in message] == [
        "a text has line breaks; each becom"
    ]
    assert any("a.jsonl, row 1: a text has line breaks" in message for message in caplog.messages)


def test_what_the_columns_are_taken_for_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "t2t_lite")
    _read(tmp_path / "a.tsv", "a\tb\nc\td\n")
    assert caplog.messages == [f"{tmp_path}/a.tsv has no header: its first column is taken as en, the second as de."]


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
        ("a.csv", "a,b\nc," + "d" * 140_000, r"row 2: .* more than 131,072 characters.* \.tsv or \.jsonl, which"),
        (
            "a.jsonl",
            '{"en": "a", "de": "b"}\n{"en": "a"\n',
            r"row 2: it is not JSON \(.*; expected {\"translation\": {",
        ),
        ("a.jsonl", "[" * 100_000, r"row 1: it is not JSON"),
        ("a.jsonl", '{"english": "a", "de": "b"}', r"row 1: its keys are 'english', 'de'; expected .*{\"en\": \"...\""),
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
