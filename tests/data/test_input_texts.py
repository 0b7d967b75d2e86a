"""Texts to translate: lines, and strings or objects of a .jsonl file, which may hold line breaks."""

from pathlib import Path

import pytest

from t2t_lite.data.input_texts import read_texts
from t2t_lite.errors import DataError


def test_each_form(tmp_path: Path) -> None:
    rows = '"a\\nb"\n\n{"source": "c", "target": "d"}\n{"input": "e\\n", "outputs": []}\n'
    (tmp_path / "in.jsonl").write_text(rows)
    (tmp_path / "in.txt").write_text(rows)
    assert list(read_texts(tmp_path / "in.jsonl")) == ["a\nb", "", "c", "e\n"]
    assert list(read_texts(tmp_path / "in.txt")) == rows.split("\n")[:-1]


@pytest.mark.parametrize("line", ["a b", "3", '{"en": "a"}', '"\\ud83d"', '{"source": 3}'])
def test_what_is_no_text(tmp_path: Path, line: str) -> None:
    (tmp_path / "in.jsonl").write_text(f'"a"\n{line}\n')
    with pytest.raises(DataError, match=r"in\.jsonl, line 2: it is .*; each line of a \.jsonl file is a text"):
        list(read_texts(tmp_path / "in.jsonl"))
