"""Vocabulary files of every kind: named, read and refused by the endings of their names."""

from pathlib import Path

import pytest

from t2t_lite.data import vocabulary_files
from t2t_lite.data.vocabulary_files import by_file, is_there, load, load_pair
from t2t_lite.errors import DataError
from t2t_lite.importers.vocabularies import ByteVocabulary, OpenNmtVocabulary, SubwordVocabulary, TokenVocabulary
from t2t_lite.text.any_vocabulary import AnyVocabulary
from t2t_lite.text.vocabulary_training import train_vocabulary
from tests.subword_files import PIECES, file_of


@pytest.fixture(scope="module")
def kinds() -> dict[str, AnyVocabulary]:
    """A vocabulary of each kind, by the ending of its file name."""
    every = (
        train_vocabulary(["the cats sat"], size=20),
        SubwordVocabulary(file_of(PIECES)),
        TokenVocabulary(b"<pad>\n<EOS>\nthe\nUNK\n"),
        ByteVocabulary(),
        OpenNmtVocabulary(b"<blank>\n<s>\n</s>\nthe\n"),
    )
    return {vocabulary.suffix: vocabulary for vocabulary in every}


def test_each_kind_is_written_and_read_again(kinds: dict[str, AnyVocabulary], tmp_path: Path) -> None:
    assert {*kinds, ".marian"} == {*vocabulary_files.suffixes()}  # Marian's has tests of its own
    for suffix, vocabulary in kinds.items():
        shared, apart = tmp_path / f"shared{suffix}", tmp_path / f"apart{suffix}"
        for folder, pair in ((shared, (vocabulary, vocabulary)), (apart, (kinds[".subwords"], vocabulary))):
            folder.mkdir()
            assert not is_there(folder)
            for name, one in by_file(*pair).items():
                one.save(folder / name)
                assert name in vocabulary_files.file_names()
            assert is_there(folder)
            found = load_pair(folder)
            assert [type(one) for one in found] == [type(one) for one in pair]
            assert [one.checksum for one in found] == [one.checksum for one in pair]
            assert (found[0] is found[1]) == (pair[0] is pair[1])
    assert sorted(path.name for path in (tmp_path / "apart.model").iterdir()) == [
        "vocabulary.source.subwords",
        "vocabulary.target.model",
    ]


def test_two_kinds_for_one_side_are_refused(kinds: dict[str, AnyVocabulary], tmp_path: Path) -> None:
    for suffix in (".model", ".subwords"):
        kinds[suffix].save(tmp_path / f"vocabulary{suffix}")
    with pytest.raises(DataError, match=r"vocabulary\.model and vocabulary\.subwords; a model has one of them"):
        load_pair(tmp_path)


def test_missing_and_damaged_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"vocabulary\.source\.model: there is no such vocabulary file"):
        load_pair(tmp_path)
    (tmp_path / "vocabulary.subwords").write_bytes(b"'<pad>'\n'x'\n")
    with pytest.raises(DataError, match=r"vocabulary\.subwords: The file begins with '<pad>' and 'x'"):
        load_pair(tmp_path)
    path = tmp_path / "something"
    path.write_bytes(b"x")
    with pytest.raises(DataError, match="not a SentencePiece model"):
        load(path)


def test_lines_are_stripped_where_tensor2tensor_strips_them(kinds: dict[str, AnyVocabulary]) -> None:
    line = "\t the cats \u2003"
    assert kinds[".model"].line(line) == line
    for suffix in (".subwords", ".tokens", ".bytes"):
        assert kinds[suffix].line(line) == "the cats"
