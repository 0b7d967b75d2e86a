"""An output that grows block by block: what a killed command leaves, and how the next one resumes."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from t2t_lite.cli.partial_output import PartialOutput
from t2t_lite.errors import DataError, UsageError

LINES = [f"line {i}" for i in range(10)]
SETTINGS = {"model": "abc", "nbest": None, "length_penalty": 0.6}


def _write(path: Path, blocks: list[list[str]], *, resume: bool = False, end: bool = True) -> None:
    with PartialOutput(str(path), SETTINGS, resume=resume) as out:
        lines = iter(LINES)
        out.skip_done(lines)
        for block in blocks:
            assert [next(lines) for _ in block] == block
            out.write(block, "".join(line.upper() + "\n" for line in block).encode())
        if end:
            out.finish()


def _resume(path: Path, lines: list[str], **changes: object) -> None:
    with PartialOutput(str(path), {**SETTINGS, **changes}, resume=True) as out:
        out.skip_done(iter(lines))


WHOLE = "".join(line.upper() + "\n" for line in LINES)


@pytest.mark.parametrize("torn", ["", "LINE 4", "LINE 4\nLI"])
def test_a_stopped_command_goes_on_where_it_was(tmp_path: Path, torn: str) -> None:
    path = tmp_path / "out"
    path.write_text("old")
    _write(path, [LINES[:2], LINES[2:4]], end=False)
    assert path.read_text() == "old"
    with open(tmp_path / "out.partial", "a") as file:
        file.write(torn)  # a block that was only partly written
    assert PartialOutput.count_done(str(path)) == 4
    _write(path, [LINES[4:]], resume=True)
    assert path.read_text() == WHOLE
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_other_settings_another_input_and_damage_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "out"
    _write(path, [LINES[:4]], end=False)
    state = (tmp_path / "out.partial.json").read_text()
    with pytest.raises(UsageError, match=r"begun with other settings:\n  length_penalty: 0.6 -> 1.0\nGive the same"):
        _resume(path, LINES, length_penalty=1.0)
    with pytest.raises(UsageError, match="The input has 3 lines, but 4 are done in"):
        _resume(path, LINES[:3])
    with pytest.raises(UsageError, match="The first 4 lines of the input are not those whose translations are in"):
        _resume(path, [*LINES[:3], "other"])
    _resume(path, [*LINES[:4], "a later line may change"])
    for damage in ("{", "[]", "{}", json.dumps({**json.loads(state), "lines": "x"})):
        (tmp_path / "out.partial.json").write_text(damage)
        with pytest.raises(DataError, match="Leave out --resume to begin again"):
            _resume(path, LINES)
    (tmp_path / "out.partial.json").write_text(state)
    (tmp_path / "out.partial").write_text("LI")
    with pytest.raises(DataError, match="has lost some of its 28 bytes"):
        _resume(path, LINES)


def test_one_changed_byte_of_what_was_written_is_seen(tmp_path: Path) -> None:
    path, partial = tmp_path / "out", tmp_path / "out.partial"
    _write(path, [LINES[:2], LINES[2:4]], end=False)
    whole = partial.read_bytes()
    for i in range(len(whole)):
        partial.write_bytes(whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1 :])
        with pytest.raises(DataError, match=r"out\.partial is damaged or was edited: .* Leave out --resume"):
            _resume(path, LINES)
    partial.write_bytes(whole)
    _write(path, [LINES[4:]], resume=True)
    assert path.read_text() == WHOLE


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_link_in_its_place_is_not_written_to(tmp_path: Path, link: Callable[[Path, Path], None]) -> None:
    """Whoever can write to the folder could put it there."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    link(victim, tmp_path / "out.partial")
    for resume in (False, True):
        with pytest.raises(OSError, match=f"it is a link or no regular file; remove it: '{tmp_path / 'out.partial'}'"):
            PartialOutput(str(tmp_path / "out"), SETTINGS, resume=resume)
    (tmp_path / "out.partial").unlink()
    link(victim, tmp_path / "out.partial.json")
    _write(tmp_path / "out", [LINES[:4]], end=False)
    assert victim.read_text() == "precious"


def test_two_commands_do_not_write_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with PartialOutput(str(path), SETTINGS, resume=False) as first:
        first.write(LINES[:2], b"A\nB\n")
        for resume in (False, True):
            with pytest.raises(UsageError, match=r"Another t2t-lite-decoder is writing .*out.partial"):
                PartialOutput(str(path), SETTINGS, resume=resume)
        first.finish()
    assert path.read_text() == "A\nB\n"


def test_what_is_begun_again_and_stopped_at_once_leaves_nothing_to_go_on_with(tmp_path: Path) -> None:
    path = tmp_path / "out"
    _write(path, [LINES[:4]], end=False)
    _write(path, [], end=False)
    assert PartialOutput.count_done(str(path)) is None
    _write(path, [LINES], resume=True)
    assert path.read_text() == WHOLE
