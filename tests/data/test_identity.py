"""Identity of prepared data: content decides, paths do not; changes are named; doubts are reported."""

import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from t2t_lite import registry
from t2t_lite.data.identity import _read_origin
from t2t_lite.data.prepare import prepare
from t2t_lite.data.store import Store
from t2t_lite.errors import DataError
from t2t_lite.problem import Problem

pytestmark = pytest.mark.commit


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    for split, code in itertools.product(("train", "dev"), ("en", "de")):
        lines = [f"{split} {code} {i}\n" for i in range(50 if split == "train" else 5)]
        (folder / f"{split}.{code}").write_text("".join(lines))
    return folder


def _prepare(corpus: Path, data: Path, **options: Any) -> Store:
    problem = registry.problem("text2text", source_dir=str(corpus), languages="en-de", vocab_size=40)
    return prepare(problem, data, num_workers=1, **options)


def _append(path: Path, line: str = "one more\n") -> None:
    path.write_text(path.read_text() + line)


@pytest.fixture
def data(corpus: Path, tmp_path: Path) -> Path:
    _prepare(corpus, tmp_path / "data")
    return tmp_path / "data"


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level("INFO", "t2t_lite")
    return caplog


def test_a_store_that_is_used_says_when_and_from_what(corpus: Path, data: Path, said: pytest.LogCaptureFixture) -> None:
    origin = _read_origin(data / "text2text")
    assert origin is not None
    assert said.messages == []
    _prepare(corpus, data)
    used = f"from {corpus} (50 pairs) in {data / 'text2text'}."
    assert said.messages == [f"Data prepared on {origin.prepared[:10]} {used}"]
    assert said.records[0].levelname == "INFO"


def _longer(corpus: Path) -> None:
    _append(corpus / "train.en")
    _append(corpus / "train.de")


def _same_size(corpus: Path) -> None:
    path = corpus / "dev.de"
    path.write_text(path.read_text().replace("3", "7"))


def _new_split(corpus: Path) -> None:
    for code in ("en", "de"):
        (corpus / f"test.{code}").write_text("a\n")


def _swapped(corpus: Path) -> None:
    for a, b in (("train.en", "train.de"), ("dev.en", "dev.de")):
        first, second = (corpus / a).read_text(), (corpus / b).read_text()
        (corpus / a).write_text(second)
        (corpus / b).write_text(first)


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        (_longer, ["train: {}/train.en had 590 bytes and has 599", "train: {}/train.de had 590 bytes and has 599"]),
        (_same_size, ["dev: {}/dev.de has other content, of the same size"]),
        (_new_split, ["test: {}/test.en is new", "test: {}/test.de is new"]),
        (
            _swapped,
            [
                f"{s}: {{}}/{s}.{code} has other content, of the same size"
                for s in ("train", "dev")
                for code in ("en", "de")
            ],
        ),
    ],
)
def test_changed_files_are_named_and_refused(corpus: Path, data: Path, change, lines: list[str]) -> None:  # type: ignore[no-untyped-def]
    before = {path.name: path.read_bytes() for path in (data / "text2text").iterdir()}
    change(corpus)
    with pytest.raises(DataError) as caught:
        _prepare(corpus, data)
    assert str(caught.value).split("\n") == [
        f"{data / 'text2text'} was prepared from other data:",
        *(f"  {line.format(corpus)}" for line in lines),
        "Give another --data_dir, or go back to the old data; --prepare_again prepares it again.",
    ]
    assert {path.name: path.read_bytes() for path in (data / "text2text").iterdir()} == before


def test_many_changes_are_counted(tmp_path: Path) -> None:
    class Many(Problem):
        name = "many"
        vocab_size = 40

        def samples(self, split: str) -> Iterator[tuple[str, str]]:
            yield "a b c", "d e f"

        def source_files(self, split: str) -> list[Path]:
            return sorted((tmp_path / "files").glob("*"))

        def splits(self) -> tuple[str, ...]:
            return ("train", "dev")

    (tmp_path / "files").mkdir()
    for i in range(9):
        (tmp_path / "files" / f"{i}.txt").write_text("x")
    prepare(Many(), tmp_path / "data")
    for path in (tmp_path / "files").iterdir():
        path.write_text("y")
    with pytest.raises(DataError, match=r"(\n  .* has other content, of the same size){10}\n  and 8 more\n"):
        prepare(Many(), tmp_path / "data")


def test_the_same_files_elsewhere_or_with_another_time_are_the_same(
    corpus: Path, data: Path, tmp_path: Path, said: pytest.LogCaptureFixture
) -> None:
    moved = Path(shutil.move(corpus, tmp_path / "moved"))
    (moved / "train.en").rename(moved / "train.clean.en")
    (moved / "train.de").rename(moved / "train.clean.de")
    os.utime(moved / "dev.en", (1, 1))
    manifest = (data / "text2text" / "manifest.json").read_bytes()
    _prepare(moved, data)
    assert said.messages[-1].endswith(f"in {data / 'text2text'}. The data of {moved} are the same.")
    _prepare(moved, data)  # the record now names the new folder
    assert said.messages[-1].endswith(f"from {moved} (50 pairs) in {data / 'text2text'}.")
    assert (data / "text2text" / "manifest.json").read_bytes() == manifest  # workers compare the manifest
    origin = _read_origin(data / "text2text")
    assert origin is not None
    assert origin.files is not None
    assert [Path(file.path).name for file in origin.files["train"]] == ["train.clean.en", "train.clean.de"]


def test_a_file_of_the_same_size_and_time_is_not_read_again(corpus: Path, data: Path) -> None:
    path = corpus / "train.en"
    time = path.stat().st_mtime_ns
    path.write_text(path.read_text().replace("3", "7"))
    with pytest.raises(DataError, match=r"train\.en has other content"):
        _prepare(corpus, data)
    os.utime(path, ns=(time, time))
    _prepare(corpus, data)  # not read again, so a large corpus costs nothing at each start


def test_prepare_again_does_so_only_where_something_changed(
    corpus: Path, data: Path, said: pytest.LogCaptureFixture
) -> None:
    first = _prepare(corpus, data, again=True)
    assert said.messages[-1].startswith("Data prepared on ")
    _append(corpus / "dev.en", "one more\n")
    _append(corpus / "dev.de", "noch eine\n")
    second = _prepare(corpus, data, again=True)
    [message] = [message for message in said.messages if "It is prepared again" in message]
    assert message.endswith(
        f"\nIt is prepared again, because of:\n  dev: {corpus}/dev.en had 45 bytes and has 54\n"
        f"  dev: {corpus}/dev.de had 45 bytes and has 55"
    )
    assert (len(second.split("dev")), second.checksum == first.checksum) == (6, False)
    _prepare(corpus, data)


def test_sources_that_are_gone_leave_a_doubt(corpus: Path, data: Path, said: pytest.LogCaptureFixture) -> None:
    (corpus / "train.de").unlink()
    _prepare(corpus, data)
    assert "Its sources could not be compared: " in said.messages[-1]
    assert "has train.en but not train.de" in said.messages[-1]
    shutil.rmtree(corpus)
    _prepare(corpus, data)
    assert f"Its sources could not be compared: {corpus} is not a folder" in said.messages[-1]
    assert {record.levelname for record in said.records} == {"WARNING"}


def test_a_dev_set_beside_held_out_pairs_leaves_a_doubt(
    corpus: Path, tmp_path: Path, said: pytest.LogCaptureFixture
) -> None:
    options = {"source_dir": str(corpus), "languages": "en-de", "vocab_size": 40, "dev_lines": 5}
    aside = [(corpus / f"dev.{code}").rename(tmp_path / f"dev.{code}") for code in ("en", "de")]
    problem = registry.problem("text2text", **options)
    store = prepare(problem, tmp_path / "data", num_workers=1)
    for path in aside:
        path.rename(corpus / path.name)
    again = prepare(problem, tmp_path / "data", num_workers=1, known=store.checksum)
    assert again.checksum == store.checksum
    assert f"Its sources could not be compared: {corpus} has a dev set (dev.en, dev.de)" in said.messages[-1]
    with pytest.raises(DataError, match="so --dev_lines=5 has nothing to do"):
        prepare(problem, tmp_path / "new", num_workers=1)


def test_another_source_that_cannot_be_read_is_no_doubt(corpus: Path, data: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"corpuss is not a folder"):
        _prepare(tmp_path / "corpuss", data)
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(corpus / "train.en", other)
    with pytest.raises(DataError, match=r"other has train\.en but not train\.de"):
        _prepare(other, data)


def test_a_run_may_go_on_with_its_data_though_its_own_source_is_gone(
    corpus: Path, data: Path, tmp_path: Path, said: pytest.LogCaptureFixture
) -> None:
    moved = tmp_path / "moved"
    corpus.rename(moved)
    store = _prepare(moved, data)  # from now on the record names the new place, and the run the old one
    assert _prepare(corpus, data, known=store.checksum).checksum == store.checksum
    assert f"Its sources could not be compared: {corpus} is not a folder" in said.messages[-1]
    with pytest.raises(DataError, match="is not a folder"):
        _prepare(corpus, data, known="of other data")


@pytest.mark.skipif(sys.platform == "darwin", reason="its file systems take UTF-8 only")
def test_a_folder_whose_name_is_not_utf_8(corpus: Path, tmp_path: Path) -> None:
    folder = corpus.rename(tmp_path / os.fsdecode(b"\xfcbung"))
    origin = _read_origin(_prepare(folder, tmp_path / "data").folder)
    assert origin is not None
    assert origin.paths == {"source_dir": str(folder)}


@pytest.mark.parametrize(
    "text",
    [None, "", "[1]", '{"format": 1}', '{"format": 1, "prepared": 1}', "[" * 100_000, '{"format": 1, "paths": 3}'],
)
def test_without_a_record_the_text_is_compared(
    corpus: Path, data: Path, text: str | None, said: pytest.LogCaptureFixture
) -> None:
    path = data / "text2text" / "origin.json"
    path.unlink()
    if text is not None:
        path.write_text(text)
    _prepare(corpus, data)
    compared = "text2text may give other text than when its data were prepared; all of it is compared."
    used = f"(50 pairs) in {data / 'text2text'}."
    assert said.messages == [compared, f"Data prepared {used}"]
    _prepare(corpus, data)  # the record is there again, but for the date
    assert said.messages[2:] == [f"Data prepared from {corpus} {used}"]
    path.unlink()
    _longer(corpus)
    with pytest.raises(DataError, match=r"was prepared from other data:\n  train: it had 50 pairs and has 51\n"):
        _prepare(corpus, data)


def test_a_record_of_another_format_is_refused(corpus: Path, data: Path) -> None:
    path = data / "text2text" / "origin.json"
    path.write_text(path.read_text().replace('"format": 1', '"format": 2'))
    with pytest.raises(DataError, match=r"has the format number 2; this version of t2t-lite reads format 1. Remove"):
        _prepare(corpus, data)


def test_the_reverse_of_a_problem_reads_the_same_files(corpus: Path, tmp_path: Path) -> None:
    problem = registry.problem("text2text_rev", source_dir=str(corpus), languages="en-de", vocab_size=40)
    assert problem.source_files("dev") == [corpus / "dev.en", corpus / "dev.de"]
    prepare(problem, tmp_path / "data", num_workers=1)
    _longer(corpus)
    with pytest.raises(DataError, match=r"train: \S*/train\.en had 590 bytes"):
        prepare(problem, tmp_path / "data", num_workers=1)


@pytest.mark.parametrize("name", ["cell", "cell_rev"])
def test_the_text_of_a_problem_that_no_file_defines_is_compared(name: str, tmp_path: Path) -> None:
    """A notebook's cell, or a console, defines a problem; then it is changed and runs again."""
    code = (
        "from t2t_lite import problem, registry\n"
        "from t2t_lite.data.prepare import prepare\n"
        "class Cell(problem.Problem):\n"
        "    vocab_size = 40\n"
        "    def splits(self): return ('train', 'dev')\n"
        "    def source_files(self, split): return []\n"
        "    def samples(self, split): yield 'a b c', '{text}'\n"
        "registry.register_problem(Cell)\n"
        "prepare(registry.problem('{name}'), '{data}', num_workers=1)\n"
    )
    for text, refused in (("d e f", False), ("d e f", False), ("f e d", True)):
        cell = code.format(text=text, name=name, data=tmp_path / "data")
        done = subprocess.run([sys.executable, "-"], input=cell, capture_output=True, text=True, check=False)
        assert ("was prepared from other data:" in done.stderr) == refused, done.stderr
        assert (done.returncode != 0) == refused
        assert "does not name its source files" not in done.stderr
