"""Parquet files of pairs: columns, sets in several files, and the messages for what is wrong with them."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from t2t_lite.data import tables
from t2t_lite.data.prepare import prepare
from t2t_lite.errors import DataError, UsageError
from t2t_lite.problems.text2text import Text2text

PAIRS = [("A dog.", "Ein Hund."), ("Two\r\ncats.", "Zwei\nKatzen.")]
CLEAN = [("A dog.", "Ein Hund."), ("Two\ncats.", "Zwei\nKatzen.")]


def _write(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    path.parent.mkdir(exist_ok=True)
    parquet.write_table(pa.table(columns), path, **options)
    return path


def _struct(pairs: list[tuple[str, str]], source: str = "en", target: str = "de") -> dict[str, Any]:
    return {"id": [*range(len(pairs))], "translation": [{target: t, "x": 1.5, source: s} for s, t in pairs]}


def _columns(pairs: list[Any], source: str = "source", target: str = "target", kind: Any = None) -> dict[str, Any]:
    return {target: pa.array([pair[1] for pair in pairs], kind), source: pa.array([pair[0] for pair in pairs], kind)}


@pytest.mark.parametrize(
    "columns",
    [
        _struct(PAIRS),
        _columns(PAIRS),
        _columns(PAIRS, "English", "German"),
        _columns(PAIRS, kind=pa.large_string()),
        _columns(PAIRS, kind=pa.string_view()),
        _columns(PAIRS, kind=pa.dictionary(pa.int8(), pa.large_string())),
    ],
    ids=["translation", "sides", "languages", "large", "views", "dictionaries"],
)
def test_columns_that_are_understood(tmp_path: Path, columns: dict[str, Any]) -> None:
    assert list(tables.read_table(_write(tmp_path / "a.parquet", columns), ("en", "de"))) == CLEAN


@pytest.mark.parametrize(
    ("columns", "there"),
    [
        (_columns(PAIRS, "fr", "de"), r"target|de \(string\), fr \(string\)"),
        ({"en": [1], "de": ["a"]}, r"en \(int64\), de \(string\)"),
        ({"translation": [{"en": {"text": "a"}, "de": {"text": "b"}}]}, r"translation \(struct<.*text: string"),
        ({"translation": [["a", "b"]]}, r"translation \(list<"),
    ],
)
def test_columns_that_are_not(tmp_path: Path, columns: dict[str, Any], there: str) -> None:
    path = _write(tmp_path / "a.parquet", columns)
    message = (
        rf"a\.parquet has no column of text for each of en and de, but .*({there}).* Expected translation \(struct<en"
    )
    with pytest.raises(DataError, match=message):
        list(tables.read_table(path, ("en", "de")))


def test_values_that_are_no_text_are_damaged_rows(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.parquet", _columns([("a", "b"), ("c", None), (None, "d"), ("e", "f")]))
    with pytest.raises(
        DataError, match=r"a\.parquet, row 2: the value is missing \(None\).*Damaged: 2 of 4 rows\. .*--clean"
    ):
        list(tables.read_table(path, ("en", "de")))
    said: list[int] = []
    assert list(tables.read_table(path, ("en", "de"), lambda _, count: said.append(count))) == [("a", "b"), ("e", "f")]
    assert said == [2]
    latin = pa.array([b"ok", b"M\xfcll"]).cast(pa.string(), safe=False)
    with pytest.raises(DataError, match=r"row 2: its bytes are not UTF-8\. Damaged: 1 of 2"):
        list(tables.read_table(_write(path, {"en": latin, "de": ["a", "b"]}), ("en", "de")))
    with pytest.raises(DataError, match=r"row 2: its bytes are not UTF-8\. Damaged: 1 of 2"):
        list(tables.read_table(_write(path, {"en": latin.dictionary_encode(), "de": ["a", "b"]}), ("en", "de")))
    whole = [{"en": "a", "de": "b"}, None]
    with pytest.raises(DataError, match="row 2: the value is missing"):
        list(tables.read_table(_write(path, {"translation": whole}), ("en", "de")))


def test_files_that_are_damaged(tmp_path: Path) -> None:
    pairs = [(f"source {i} {i * 7919}", f"target {i} {i * 104729}") for i in range(5000)]
    path = _write(
        tmp_path / "a.parquet", _columns(pairs), write_page_checksum=True, compression="none", use_dictionary=False
    )
    whole = path.read_bytes()
    middle = len(whole) // 2
    for data in (b"", b"en\tde\n" * 9, whole[:-20], whole[:middle], whole[:middle] + b"~" * 9 + whole[middle + 9 :]):
        path.write_bytes(data)
        with pytest.raises(
            DataError, match=r"a\.parquet is not a whole Parquet file \(.+\)\. Copy or download it again\.$"
        ):
            list(tables.read_table(path, ("en", "de")))
    with pytest.raises(DataError, match=r"b\.parquet: there is no such file"):
        list(tables.read_table(tmp_path / "b.parquet", ("en", "de")))
    with pytest.raises(DataError, match=r"a\.parquet holds no rows"):
        list(tables.read_table(_write(path, _columns([], kind=pa.string())), ("en", "de")))


def test_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(
        UsageError, match=r"pyarrow, which is not installed\. Install it: pip install 't2t-lite\[parquet\]'"
    ):
        list(tables.read_table(tmp_path / "a.parquet", ("en", "de")))


def _fill(folder: Path, names: dict[str, int]) -> Path:
    """Writes `names` with pairs that are numbered on through all files."""
    start = 0
    for name, number in names.items():
        _write(folder / name, _struct([(f"s {i}", f"t {i}") for i in range(start, start + number)]))
        start += number
    return folder


@pytest.mark.parametrize(
    "train",
    [
        {"train.parquet": 3},
        {"train-00000-of-00001.parquet": 3},
        {"train-00000-of-00002-0a1b.parquet": 1, "train-00001-of-00002-2c3d.parquet": 2},
        {"train/0000.parquet": 2, "train/0001.parquet": 1},
        {"train.parquet/part-0.snappy.parquet": 3},
    ],
)
def test_names_of_the_hub(tmp_path: Path, train: dict[str, int]) -> None:
    folder = _fill(tmp_path, train | {"validation-00000-of-00001.parquet": 1, "test/0000.parquet": 1})
    problem = Text2text(str(folder), "en-de")
    assert problem.splits() == ("train", "dev", "test")
    found = [list(problem.samples(split)) for split in problem.splits()]
    assert found == [[(f"s {i}", f"t {i}") for i in rows] for rows in (range(3), [3], [4])]
    assert [path.relative_to(folder) for path in problem.source_files("train")] == [Path(name) for name in train]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["train.parquet", "train-00000-of-00001.parquet"], "several files could be the train data: train-00000-of.*"),
        (["train.parquet", "train/0.parquet"], r"several files could be the train data: train.parquet, train/0.parq"),
        (["train-00000-of-00003.parquet"], r"has 1 of the 3 files train-\*.* missing is train-00001-of-00003\.parquet"),
    ],
)
def test_sets_that_are_not_clear(tmp_path: Path, names: list[str], message: str) -> None:
    folder = _fill(tmp_path, dict.fromkeys([*names, "dev.parquet"], 1))
    with pytest.raises(DataError, match=message):
        Text2text(str(folder), "en-de").splits()


@pytest.mark.parametrize("columns", [{"en": ["a"]}, {"en": ["a"], "de": pa.array([None], pa.string())}])
def test_a_test_set_without_targets_is_none(tmp_path: Path, columns: dict[str, Any]) -> None:
    folder = _fill(tmp_path, {"train.parquet": 1, "dev.parquet": 1})
    _write(folder / "test.parquet", columns)
    said: list[str] = []
    problem = Text2text(str(folder), "en-de")
    problem._say = said.append
    assert problem.splits() == ("train", "dev")
    assert said[-1].endswith("copy its sources to a file of lines, which t2t-lite-decoder --input=FILE translates.")


def test_folders_are_named_where_there_are_no_files(tmp_path: Path) -> None:
    _fill(tmp_path / "data", {"train.parquet": 1})
    with pytest.raises(DataError, match=r"has no train files.*; found data/\."):
        Text2text(str(tmp_path), "en-de").splits()


def test_the_store_is_that_of_text_files(tmp_path: Path) -> None:
    pairs = [(f"the number {i} and {i % 7}", f"die Zahl {i} und {i % 7}") for i in range(300)]
    splits = {"train": pairs[:280], "dev": pairs[280:290], "test": pairs[290:]}
    lines, rows, hub = (tmp_path / name for name in ("lines", "rows", "hub"))
    lines.mkdir(), rows.mkdir()
    for split, of_split in splits.items():
        for side, language in enumerate(("en", "de")):
            (lines / f"{split}.{language}").write_text("".join(pair[side] + "\n" for pair in of_split))
        text = [json.dumps({"translation": {"en": source, "de": target}}) for source, target in of_split]
        (rows / f"{split}.jsonl").write_text("\n".join(text))
        _write(hub / f"{split}-00000-of-00002.parquet", _struct(of_split[:5]))
        _write(hub / f"{split}-00001-of-00002.parquet", _columns(of_split[5:]))
    found = [
        prepare(Text2text(str(folder), "en-de", vocab_size=80), tmp_path / f"data_{folder.name}", num_workers=1)
        for folder in (lines, rows, hub)
    ]
    assert found[0].manifest["files"] == found[1].manifest["files"] == found[2].manifest["files"]
    assert len(found[0].manifest["files"]) > 10
