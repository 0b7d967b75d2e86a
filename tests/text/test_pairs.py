"""pairs_of: tables and data sets of other libraries give the same prepared data as text files; what is no text."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import dataset, parquet

from t2t_lite import problem
from t2t_lite.data.prepare import prepare
from t2t_lite.errors import DataError, UsageError
from t2t_lite.problems.text2text import Text2text

PAIRS = [(f"the number {i} and {i % 7}", f"die Größe {i} und {i % 7}") for i in range(300)]
SPLITS = {"train": PAIRS[:280], "dev": PAIRS[280:290], "test": PAIRS[290:]}


def _columns(pairs: list[tuple[str, str]]) -> dict[str, Any]:
    return {"target": [target for _, target in pairs], "source": [source for source, _ in pairs]}


def _pandas(pairs: list[tuple[str, str]]) -> Any:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed; it is in no extra")
    return pandas.DataFrame(_columns(pairs), index=range(7, 7 + len(pairs)))


def _tf_pairs(pairs: list[tuple[str, str]]) -> Any:
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices(tuple(map(list, zip(*pairs, strict=True))))


def _tf_columns(pairs: list[tuple[str, str]]) -> Any:
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices({"translation": _columns(pairs)})


def _arrow(pairs: list[tuple[str, str]]) -> pa.Table:
    return pa.table({"translation": [{"de": target, "en": source} for source, target in pairs]})


NESTED, CODES = ("translation.source", "translation.target"), ("translation.en", "translation.de")
KINDS: dict[str, tuple[Callable[[Any], Any], tuple[str, ...]]] = {
    "pandas": (_pandas, ()),
    "arrow": (lambda pairs: pa.table(_columns(pairs)), ()),
    "arrow_struct": (_arrow, CODES),
    "arrow_dataset": (lambda pairs: dataset.dataset(_arrow(pairs)), CODES),
    "rows": (lambda pairs: [{"id": 1, "translation": {"en": s, "de": t}} for s, t in pairs], CODES),
    "iterator": (iter, ()),
    "tf_pairs": (_tf_pairs, ()),
    "tf_columns": (_tf_columns, NESTED),
}


@pytest.fixture(scope="module")
def files_of_text(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The files of the store that is prepared from text files, by name."""
    folder = tmp_path_factory.mktemp("text")
    for split, pairs in SPLITS.items():
        for side, language in enumerate(("en", "de")):
            (folder / f"{split}.{language}").write_text("".join(pair[side] + "\n" for pair in pairs), "utf-8")
    store = prepare(Text2text(str(folder), "en-de", vocab_size=80), folder / "data", num_workers=1)
    return dict(store.manifest["files"])


@pytest.mark.commit
@pytest.mark.parametrize("kind", KINDS)
def test_the_store_is_that_of_text_files(tmp_path: Path, files_of_text: dict[str, Any], kind: str) -> None:
    make, names = KINDS[kind]

    class Own(problem.Problem):
        name, vocab_size = "own", 80

        def samples(self, split: str) -> Iterator[tuple[str, str]]:
            return problem.pairs_of(make(SPLITS[split]), *names)

    assert prepare(Own(), tmp_path, num_workers=1).manifest["files"] == files_of_text
    assert len(files_of_text) > 10


def test_an_iterator_that_is_used_up_is_no_data(tmp_path: Path) -> None:
    class Own(problem.Problem):
        name, vocab_size, once = "own", 80, iter(SPLITS["train"])

        def samples(self, split: str) -> Iterator[tuple[str, str]]:
            return problem.pairs_of(self.once if split == "train" else SPLITS[split])

    with pytest.raises(
        DataError, match=r"'train' of 'own' has no pairs with text\. samples must give its pairs at each"
    ):
        prepare(Own(), tmp_path, num_workers=1)


def test_a_folder_of_parquet_is_a_stream(tmp_path: Path) -> None:
    parquet.write_table(pa.table(_columns(PAIRS)), tmp_path / "a.parquet")
    assert list(problem.pairs_of(dataset.dataset(tmp_path))) == PAIRS


def test_alignments_stay() -> None:
    aligned = problem.AlignedPair("a b", "c d", [(0, 1)])
    [found] = problem.pairs_of([aligned])
    assert found is aligned


MISSING = r"the value is missing \({}\); leave such rows out\."


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("a", "b"), ("c", None)], rf"Row 2, 'target': {MISSING.format('None')}"),
        ([("a", float("nan"))], rf"Row 1, 'target': {MISSING.format('nan')}"),
        ([(b"\xff", "a")], r"Row 1, 'source': its bytes are not UTF-8\."),
        ([{"source": 5, "target": "a"}], r"Row 1, 'source': the value is 5, of the type int; expected a text\."),
        (
            [(np.array(["a"]), "b")],
            r"of the type ndarray; expected a text; take the elements .* batches \(\.unbatch\(\)\)",
        ),
        (["ab"], r"Row 1 is 'ab'; expected \(source, target\) or a mapping with"),
        ([("a", "b", "c")], r"Row 1 is \('a', 'b', 'c'\); expected"),
        (pa.table({"source": ["a", "b"], "target": ["a", None]}), rf"Row 2, 'target': {MISSING.format('None')}"),
    ],
)
def test_rows_that_are_no_pairs(rows: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        list(problem.pairs_of(rows))


def test_a_missing_value_that_would_hold_both() -> None:
    rows = [{"translation": {"en": "a", "de": "b"}}, {"translation": None}]
    for given in (rows, pa.Table.from_pylist(rows)):
        with pytest.raises(DataError, match=rf"Row 2, 'translation.en': {MISSING.format('None')}"):
            list(problem.pairs_of(given, *CODES))


def test_missing_values_of_pandas() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed; it is in no extra")
    for value in (None, float("nan"), pandas.NA):
        frame = pandas.DataFrame({"source": ["a", "b"], "target": ["c", value]})
        with pytest.raises(DataError, match=rf"Row 2, 'target': {MISSING.format('.*')}"):
            list(problem.pairs_of(frame))
    with pytest.raises(UsageError, match="There is no column 'src', only source, target"):
        list(problem.pairs_of(frame, "src"))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            pa.table({"sources": ["a"], "x.y": ["b"]}),
            r"no column 'source', only sources, x\.y\. Name .*mean 'sources'\?",
        ),
        (dataset.dataset(_arrow(PAIRS)), r"no column 'source', only translation, translation\.de, translation\.en\. "),
        ([{"source": "a", "translation": "b"}], r"no column 'target', only source, translation\. Name the columns"),
        ("corpus.tsv", r"pairs_of takes a table, .* not 'corpus\.tsv' of the type str\."),
        (None, r"not None of the type NoneType\."),
    ],
)
def test_what_has_no_such_rows(rows: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        list(problem.pairs_of(rows))
