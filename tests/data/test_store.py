"""The token store: what is written is read again; damage is found and named."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from t2t_lite.data.encode import Side
from t2t_lite.data.store import Store, open_store
from t2t_lite.data.store_writer import SequenceWriter, StoreWriter
from t2t_lite.errors import DataError
from t2t_lite.text.vocabulary_training import train_vocabulary

pytestmark = pytest.mark.commit

_SEQUENCES = [[5, 6, 7, 1], [1], [9, 1], [8] * 300 + [1]]
_TEXT = ["a b\u2028c", "", "d\u0085", "e\r"]


def _side(sequences: list[list[int]]) -> Side:
    return Side(
        np.array(list(itertools.chain.from_iterable(sequences)), np.uint32), np.array([len(s) for s in sequences])
    )


def _write(folder: Path, size: int = 100, sequences: list[list[int]] = _SEQUENCES) -> Store:
    """Writes a store with one split, dev, in two chunks; its two sides are equal."""
    with StoreWriter(folder) as writer:
        facts: dict[str, object] = {"pairs": len(sequences), "dropped": 0, "text": True}
        for side in ("source", "target"):
            ids = SequenceWriter(writer, f"dev.{side}", size)
            ids.write(_side(sequences[:3]))
            ids.write(_side(sequences[3:]))
            facts[side] = ids.facts()
            writer.file(f"dev.{side}.txt").write("".join(f"{line}\n" for line in _TEXT).encode())
        writer.file("vocabulary.model").write(train_vocabulary(["a b c"], size=20).data)
        names = {"source": "vocabulary.model", "target": "vocabulary.model"}
        writer.finish({"settings": {}, "vocabularies": names, "splits": {"dev": facts}})
    return open_store(folder)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return _write(tmp_path / "store")


@pytest.mark.parametrize(("size", "dtype"), [(65_536, "<u2"), (65_537, "<u4")])
def test_ids_come_back_with_the_smallest_type(tmp_path: Path, size: int, dtype: str) -> None:
    sequences = [*_SEQUENCES, [size - 1, 1]]
    split = _write(tmp_path / "store", size, sequences).split("dev")
    assert len(split) == len(split.source) == len(split.target) == 5
    for tokens in (split.source, split.target):
        assert [tokens[i].tolist() for i in range(5)] == sequences
        assert isinstance(tokens.data, np.memmap)
        assert isinstance(tokens.offsets, np.memmap)
        assert tokens.data.dtype == np.dtype(dtype)
        assert tokens.lengths.dtype == np.int32
        assert tokens.lengths.tolist() == [4, 1, 2, 301, 2]
        for index in (5, -1):
            with pytest.raises(IndexError, match="of 5"):
                tokens[index]


def test_unknown_split(store: Store) -> None:
    for read in (store.split, store.text):
        with pytest.raises(
            DataError,
            match=r"has no split 'test'; it has dev\. Other text is translated by t2t-lite-decoder --input=FILE",
        ):
            read("test")


def test_verify_finds_a_flipped_bit_in_any_file(store: Store) -> None:
    store.verify()
    assert len(store.manifest["files"]) == 7
    for name in store.manifest["files"]:
        path = store.folder / name
        whole = path.read_bytes()
        damaged = bytearray(whole)
        damaged[len(damaged) // 2] ^= 1
        path.write_bytes(damaged)
        again = open_store(store.folder)  # opening looks at sizes only
        with pytest.raises(
            DataError, match=rf"{name} is damaged: its checksum is .* Delete .* and prepare the data again"
        ):
            again.verify()
        path.write_bytes(whole)
    store.verify()


def test_a_truncated_file_is_found_at_open(store: Store) -> None:
    path = store.folder / "dev.target.ids"
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(DataError, match=r"dev\.target\.ids has 614 bytes instead of 616\. Delete .* and prepare"):
        open_store(store.folder)


def test_no_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for folder in (tmp_path, tmp_path / "nothing", tmp_path / "file"):
        with pytest.raises(
            DataError, match=r"holds no prepared data \(no manifest\.json\)\. Make it with t2t-lite-datagen"
        ):
            open_store(folder)


def test_a_store_that_is_not_finished_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="stop here"), StoreWriter(tmp_path / "store") as writer:  # noqa: PT012
        writer.file("dev.source.ids").write(b"abc")
        raise RuntimeError("stop here")
    assert list(tmp_path.iterdir()) == []


def test_writing_again_replaces_the_store(store: Store) -> None:
    again = _write(store.folder, 100, [[4, 1], [1], [1], [1]])
    assert again.split("dev").source[0].tolist() == [4, 1]
    assert [path.name for path in store.folder.parent.iterdir()] == ["store"]


def test_what_was_opened_stays_as_it_was_when_the_store_is_replaced(store: Store) -> None:
    before, text = store.split("dev"), store.text("dev")
    _write(store.folder, 100, [[4, 1], [1], [1], [1]])
    assert store.split("dev") is before
    assert [ids.tolist() for ids in before.source] == [ids.tolist() for ids in before.target] == _SEQUENCES
    (store.folder / "dev.source.txt").write_text("others\n")
    assert store.text("dev") is text
    assert text == (_TEXT, _TEXT)


def test_a_store_that_was_replaced_before_a_split_was_opened_is_refused(store: Store) -> None:
    _write(store.folder, 100, [[4, 1], [1], [1], [1]])  # as many pairs
    with pytest.raises(DataError, match=r"/store was prepared again after this command had begun to use it\. Start"):
        store.split("dev")
