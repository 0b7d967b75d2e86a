"""OpenNMT-tf's vocabularies: token files, alone and as a list of a SentencePiece model's pieces."""

from pathlib import Path

import pytest
import tensorflow as tf

from t2t_lite.data.vocabulary_files import load
from t2t_lite.errors import DataError
from t2t_lite.export.text_ops import GraphText
from t2t_lite.importers import toolkits
from t2t_lite.importers.vocabularies import OpenNmtVocabulary
from t2t_lite.text import sentencepiece_model
from t2t_lite.text.vocabulary import Vocabulary
from t2t_lite.text.vocabulary_training import train_vocabulary

FILE = b"<blank>\n<s>\n</s>\na\n\xe2\x96\x81b\n"


def test_tokens_and_special_ids(tmp_path: Path) -> None:
    """In OpenNMT-tf <s> has id 1 and </s> id 2, and <unk> comes after the last line."""
    (tmp_path / "vocabulary.opennmt").write_bytes(FILE)
    vocabulary = load(tmp_path / "vocabulary.opennmt")
    assert isinstance(vocabulary, OpenNmtVocabulary)
    assert vocabulary.pieces(range(7)) == ["<blank>", "</s>", "<s>", "a", "\u2581b", "<unk>", "ID_6"]
    assert vocabulary.encode(" a  \u2581b c <s> a\u2028") == [3, 4, 5, 5, 5]
    assert vocabulary.decode([0, 3, 5, 1, 4]) == "a <unk>"
    assert toolkits.side(vocabulary).rows == (0, 2, 1, 3, 4, 5)


def test_shown_as_sentencepiece_names_its_pieces() -> None:
    """Tokens that are pieces of SentencePiece are named so already; all others are words."""
    assert OpenNmtVocabulary(FILE).display_pieces([4, 3, 4, 3, 1]) == ["\u2581b", "a", "\u2581b", "a", "</s>"]
    words = OpenNmtVocabulary(FILE.replace(b"\xe2\x96\x81b", b"b@@"))
    assert words.display_pieces([3, 4, 3, 5, 1]) == ["\u2581a", "\u2581b", "a", "\u2581<unk>", "</s>"]


def test_white_space_is_that_of_ascii() -> None:
    """OpenNMT-tf split "a\xa0b\u2028c\u3000d\x1ce\x85f g\th\vi\fj\rk" as here, with tf.strings.split."""
    tokens = ["a\xa0b\u2028c\u3000d\x1ce\x85f", "g", "h", "i", "j", "k", "\xa0l\xa0"]
    vocabulary = OpenNmtVocabulary("\n".join(["<blank>", "<s>", "</s>", *tokens, ""]).encode())
    text = " a\xa0b\u2028c\u3000d\x1ce\x85f g\th\vi\fj\rk \xa0l\xa0"
    assert vocabulary.pieces(vocabulary.encode(vocabulary.line(text))) == tokens
    graph = GraphText(vocabulary)
    assert graph.encode(tf.constant([text]), 100)[0].numpy().tolist() == [*range(3, 10), 1]
    assert [piece.encode() for piece in tokens] == tf.strings.split(text).numpy().tolist()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"<s>\n</s>\na\n", "begins with '<s>', '</s>', 'a'; a vocabulary of OpenNMT-tf begins with '<blank>', "),
        (FILE + b"a\n", "The token 'a' stands in two lines"),
        (b"", "The file is empty; a vocabulary of OpenNMT-tf has a piece on each line"),
    ],
)
def test_other_files(data: bytes, said: str) -> None:
    with pytest.raises(DataError, match=said):
        OpenNmtVocabulary(data)


@pytest.fixture(scope="module")
def trained() -> Vocabulary:
    lines = ["the cats are here", "the dogs were there", "here and there a cat"] * 3
    return train_vocabulary(lines, size=40, kind="unigram")


def test_pieces_of_a_sentencepiece_model(trained: Vocabulary, tmp_path: Path) -> None:
    """Text is split as before; each of our ids has the row of its piece in OpenNMT-tf."""
    trained.save(tmp_path / "sp.model")
    pieces = trained.pieces(range(3, trained.size))[::-1]
    listed = OpenNmtVocabulary("".join(f"{piece}\n" for piece in ("<blank>", "<s>", "</s>", *pieces)).encode())
    side = toolkits.side(listed, str(tmp_path / "sp.model"))
    ours, there = side.vocabulary, ["<blank>", "<s>", "</s>", *pieces, "<unk>"]
    for text in ("the cats were there", "a z\u00e4 cat <s>"):
        assert ours.pieces(ours.encode(text)) == trained.pieces(trained.encode(text))
    names = ["<blank>", "</s>", "<unk>", *pieces, "<s>"]
    assert [there[row] for row in side.rows] == names
    assert ours.pieces(range(3, ours.size)) == names[3:]
    assert ours.decode([3, ours.size - 1, 4]) == trained.decode([trained.size - 1, trained.size - 2])
    with pytest.raises(DataError, match=r"sp.model and the vocabulary do not have the same pieces: .* is in one of"):
        sentencepiece_model.with_order(tmp_path / "sp.model", pieces[1:], "<s>")


def test_a_vocabulary_that_was_filled_up(trained: Vocabulary, tmp_path: Path) -> None:
    """onmt-build-vocab --size_multiple=8 ends the file with tokens that no text has; each keeps its id."""
    trained.save(tmp_path / "sp.model")
    fillers = [f"averyunlikelytoken{i}" for i in range(4)]
    tokens = [*trained.pieces(range(3, trained.size)), *fillers]
    found = sentencepiece_model.with_order(tmp_path / "sp.model", tokens, "<s>")
    assert found.pieces(range(3, found.size)) == [*tokens, "<s>"]
    for text in ("the cats were there", "a cat averyunlikelytoken1"):
        assert found.pieces(found.encode(text)) == trained.pieces(trained.encode(text))
