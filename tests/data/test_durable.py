"""Files written whole or not at all."""

import os
from pathlib import Path

import pytest

from t2t_lite.data.durable import replace_file


def test_a_file_is_replaced_whole_and_nothing_else_stays(tmp_path: Path) -> None:
    for text in ("eins\n", "zwei\r\u2028\n"):
        replace_file(tmp_path / "a.json", text)
        assert (tmp_path / "a.json").read_bytes() == text.encode()
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_what_fails_leaves_the_file_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_file(tmp_path / "a.json", "old")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        replace_file(tmp_path / "a.json", "new")
    assert (tmp_path / "a.json").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
