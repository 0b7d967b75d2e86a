"""Identity of prepared data: content decides, paths do not; changes are named; doubts are reported."""

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from t2t_lite import registry
from t2t_lite.data.prepare import prepare
from t2t_lite.data.store import Store
from t2t_lite.errors import DataError

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


@pytest.fixture
def data(corpus: Path, tmp_path: Path) -> Path:
    _prepare(corpus, tmp_path / "data")
    return tmp_path / "data"


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level("INFO", "t2t_lite")
    return caplog


def test_a_store_that_is_used_says_when_and_from_what(corpus: Path, data: Path, said: pytest.LogCaptureFixture) -> None:
    assert said.messages == []
    _prepare(corpus, data)
    [message] = said.messages
    assert re.fullmatch(
        rf"Data prepared on \d{{4}}-\d\d-\d\d from {corpus} \(50 pairs\) in {data}/text2text\.", message
    )
    assert said.records[0].levelname == "INFO"


def _longer(corpus: Path, name: str = "train") -> None:
    for code in ("en", "de"):
        path = corpus / f"{name}.{code}"
        path.write_text(path.read_text() + "one more\n")


def _same_size(corpus: Path) -> None:
    path = corpus / "dev.de"
    path.write_text(path.read_text().replace("3", "7"))


def _new_split(corpus: Path) -> None:
    for code in ("en", "de"):
        (corpus / f"test.{code}").write_text("a\n")


def _gone(corpus: Path) -> None:
    for code in ("en", "de"):
        (corpus / f"train.{code}").rename(corpus / f"train.new.{code}")
    _longer(corpus, "train.new")


def _other_order(corpus: Path) -> None:
    (corpus / "dev.en").rename(corpus / "aside")
    (corpus / "dev.de").rename(corpus / "dev.en")
    (corpus / "aside").rename(corpus / "dev.de")


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        (_longer, ["train: {}/train.en has changed", "train: {}/train.de has changed"]),
        (_same_size, ["dev: {}/dev.de has changed"]),
        (_new_split, ["test: {}/test.en is new", "test: {}/test.de is new"]),
        (
            _gone,
            [f"train: {{}}/train.new.{code} is new" for code in ("en", "de")]
            + [f"train: {{}}/train.{code} is no longer read" for code in ("en", "de")],
        ),
        (_other_order, ["dev: its files are fewer, or read in another order"]),
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


def test_many_changes_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [tmp_path / f"{i}.txt" for i in range(9)]
    for text in "xy":
        for path in files:
            path.write_text(text)
        problem = registry.problem("toy_reverse", train_size=50)
        monkeypatch.setattr(problem, "source_files", lambda split: files if split != "test" else [])
        if text == "x":
            prepare(problem, tmp_path / "data", num_workers=1)
    with pytest.raises(DataError, match=r"(\n  .* has changed){10}\n  and 8 more\n"):
        prepare(problem, tmp_path / "data")


def test_the_same_files_elsewhere_or_with_another_time_are_the_same(
    corpus: Path, data: Path, tmp_path: Path, said: pytest.LogCaptureFixture
) -> None:
    moved = Path(shutil.move(corpus, tmp_path / "moved"))
    (moved / "train.en").rename(moved / "train.clean.en")
    (moved / "train.de").rename(moved / "train.clean.de")
    os.utime(moved / "dev.en", (1, 1))
    manifest = (data / "text2text" / "manifest.json").read_bytes()
    _prepare(moved, data)
    assert said.messages[-1].endswith(f" from {moved} (50 pairs) in {data / 'text2text'}.")
    assert (data / "text2text" / "manifest.json").read_bytes() == manifest  # workers compare the manifest
    record = json.loads((data / "text2text" / "origin.json").read_text())
    assert [Path(file["path"]).name for file in record["files"]["train"]] == ["train.clean.en", "train.clean.de"]


def test_a_file_of_the_same_size_and_time_is_not_read_again(corpus: Path, data: Path) -> None:
    path = corpus / "train.en"
    time = path.stat().st_mtime_ns
    path.write_text(path.read_text().replace("3", "7"))
    with pytest.raises(DataError, match=r"train\.en has changed"):
        _prepare(corpus, data)
    os.utime(path, ns=(time, time))
    _prepare(corpus, data)  # not read again, so a large corpus costs nothing at each start


def test_prepare_again_does_so_only_where_something_changed(
    corpus: Path, data: Path, said: pytest.LogCaptureFixture
) -> None:
    first = _prepare(corpus, data, again=True)
    assert said.messages[-1].startswith("Data prepared on ")
    _longer(corpus, "dev")
    second = _prepare(corpus, data, again=True)
    [message] = [message for message in said.messages if "It is prepared again" in message]
    assert f"  dev: {corpus}/dev.en has changed\n  dev: {corpus}/dev.de has changed\n" in message
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
def test_a_folder_whose_name_is_not_utf_8(corpus: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("ERROR", "t2t_lite")  # pytest's workers could not send the log, which has the name
    folder = corpus.rename(tmp_path / os.fsdecode(b"\xfcbung"))
    for _ in range(2):
        _prepare(folder, tmp_path / "data")
    origin = json.loads((tmp_path / "data/text2text/origin.json").read_text("utf-8"))
    assert origin["paths"] == {"source_dir": str(folder)}


@pytest.mark.parametrize("text", [None, "", '{"format": 1}'])
def test_without_a_record_the_text_is_compared(
    corpus: Path, data: Path, text: str | None, said: pytest.LogCaptureFixture
) -> None:
    path = data / "text2text" / "origin.json"
    path.unlink()
    if text is not None:
        path.write_text(text)
    compared = "text2text may give other text than when its data were prepared; all of it is compared."
    _prepare(corpus, data)
    _prepare(corpus, data)  # the record is there again
    assert [message == compared for message in said.messages] == [True, False, False]
    path.unlink()
    _longer(corpus)
    with pytest.raises(DataError, match=r"was prepared from other data:\n  train: it holds other text\n"):
        _prepare(corpus, data)


def test_the_reverse_of_a_problem_reads_the_same_files(corpus: Path, tmp_path: Path) -> None:
    problem = registry.problem("text2text_rev", source_dir=str(corpus), languages="en-de", vocab_size=40)
    assert problem.source_files("dev") == [corpus / "dev.en", corpus / "dev.de"]
    prepare(problem, tmp_path / "data", num_workers=1)
    _longer(corpus)
    with pytest.raises(DataError, match=r"train: \S*/train\.en has changed"):
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
