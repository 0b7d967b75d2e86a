"""Token and byte vocabularies of tensor2tensor."""

from pathlib import Path

import pytest

from t2t_lite.errors import DataError
from t2t_lite.importers import vocabulary_kinds
from t2t_lite.importers.vocabularies import ByteVocabulary, TokenVocabulary

_TOKENS = ["<pad>", "<EOS>", "the", "c@@", "at", ",", "UNK"]


def _file(tokens: list[str]) -> bytes:
    return "".join(f"{token}\n" for token in tokens).encode()


def test_tokens_between_white_space() -> None:
    vocabulary = TokenVocabulary(_file(_TOKENS))
    assert (vocabulary.size, vocabulary.unknown) == (7, 6)
    assert vocabulary.encode("  the c@@ at\u00a0,\u2003dog\tthe ") == [2, 3, 4, 5, 6, 2]
    assert vocabulary.encode(" ") == []
    assert vocabulary.encode_many(["the", "cat"]) == [[2], [6]]
    assert vocabulary.text_of([2, 3, 4, 1, 0, 7, -1]) == "the c@@ at <EOS> <pad> ID_7 ID_-1"
    assert vocabulary.decode([0, 2, 3, 4, 1, 2]) == "the c@@ at"
    assert vocabulary.pieces([1, 6]) == ["<EOS>", "UNK"]


def test_tokens_and_bytes_shown_as_sentencepiece_names_its_pieces() -> None:
    """A token that subword-nmt ended with "@@" goes on in the next one."""
    tokens = TokenVocabulary(_file([*_TOKENS, "@@"]))
    assert tokens.display_pieces([2, 3, 4, 5, 6, 7, 1]) == ["▁the", "▁c", "at", "▁,", "▁UNK", "▁@@", "</s>"]
    vocabulary = ByteVocabulary()
    assert vocabulary.display_pieces([*vocabulary.encode("hi  ä"), 1]) == [
        "▁h",
        "i",
        "▁",
        "▁",
        "▁\\xc3",
        "\\xa4",
        "</s>",
    ]


@pytest.mark.parametrize("unknown", ["UNK", "<UNK>", "<unk>", "<OOV>"])
def test_the_token_for_unknown_words_has_one_of_four_names(unknown: str) -> None:
    """The names come from translate_ende_wmt_bpe32k, text2text_tmpdir_tokens, dialogues and CFQ."""
    assert TokenVocabulary(_file(["<pad>", "<EOS>", unknown, "the"])).encode("the dog") == [3, 2]


def test_of_several_such_tokens_an_import_cannot_know_which(tmp_path: Path) -> None:
    path = tmp_path / "vocab.tokens"
    path.write_bytes(_file([*_TOKENS, "<unk>"]))
    with pytest.raises(DataError, match="holds 'UNK' and '<unk>', and which of them stands .* such as 'UNK' to 'UNK_'"):
        vocabulary_kinds.load(path)


def test_white_space_around_a_line_is_no_part_of_its_token() -> None:
    assert TokenVocabulary(b"<pad>\n<EOS>\r\n a \nUNK").encode("a") == [2]


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"", "The file is empty; a token vocabulary"),
        (_file(_TOKENS[2:]), "begins with 'the' and 'c@@'; a token vocabulary of tensor2tensor begins with"),
        (
            _file(_TOKENS[:-1]),
            "has no line 'UNK' or '<UNK>' or '<unk>' or '<OOV>', .* rename that line to '<UNK>' in a copy",
        ),
        (b"<pad>\n<EOS>\n\xe4\n", "Line 3 is not UTF-8"),
    ],
)
def test_bad_token_files(tmp_path: Path, data: bytes, match: str) -> None:
    path = tmp_path / "vocab.tokens"
    path.write_bytes(data)
    with pytest.raises(DataError, match=match):
        TokenVocabulary.load(path)


def test_bytes_are_two_above_their_value() -> None:
    vocabulary = ByteVocabulary()
    assert (vocabulary.size, vocabulary.unknown) == (258, None)
    assert vocabulary.encode("aé\n") == [99, 0xC3 + 2, 0xA9 + 2, 12]
    assert vocabulary.encode("") == []
    assert vocabulary.encode("\ud800a") == vocabulary.encode("\ufffda")
    assert vocabulary.encode("\U0001f30d") == [byte + 2 for byte in "🌍".encode()]
    assert vocabulary.text_of([0, 99, 1, 258, -3]) == "<pad>a<EOS>"
    assert vocabulary.text_of([0xC3 + 2, 99]) == "\ufffda"
    assert vocabulary.decode([99, 0, 100, 1, 101]) == "ab"
    assert vocabulary.pieces([1, 99, 0xE4 + 2, 258]) == ["<EOS>", "a", "\\xe4", ""]


def test_a_file_of_another_kind_is_no_byte_vocabulary() -> None:
    with pytest.raises(DataError, match="holds the line 'tensor2tensor ByteTextEncoder'"):
        ByteVocabulary(_file(_TOKENS))
