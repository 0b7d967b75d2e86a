"""Subword vocabularies: tensor2tensor's files, ids and texts."""

import json
import re
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest

from t2t_lite.errors import DataError
from t2t_lite.importers.vocabularies import SubwordVocabulary, escape, tokens
from tests.subword_files import HARD, PIECES, differing, file_of, golden


@pytest.fixture(scope="module")
def vocabulary() -> SubwordVocabulary:
    return SubwordVocabulary(file_of(PIECES))


@pytest.mark.commit
def test_letters_and_digits_are_those_of_unicode() -> None:
    """A regular expression and str.isalnum must agree with tensor2tensor's test, the categories L* and N*."""
    word = re.compile(r"[^\W_]")
    for char in map(chr, range(sys.maxunicode + 1)):
        wanted = unicodedata.category(char)[0] in "LN"
        assert bool(word.match(char)) is wanted
        assert char.isalnum() is wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", []),
        (" ", [" "]),
        ("  ", ["  "]),
        ("a", ["a"]),
        (" a ", [" ", "a", " "]),
        ("a b", ["a", "b"]),
        ("a  b", ["a", "  ", "b"]),
        ("a, b.", ["a", ", ", "b", "."]),
        ("x_1\\y", ["x", "_", "1", "\\", "y"]),
    ],
)
def test_tokens(text: str, wanted: list[str]) -> None:
    assert tokens(text) == wanted


def test_escapes() -> None:
    assert escape("a_b\\c\nd日", frozenset("abcd\\_u;0123456789\n")) == "a\\ub\\\\c\\10;d\\26085;_"


def test_longest_pieces_from_the_left(vocabulary: SubwordVocabulary) -> None:
    def pieces(text: str) -> list[str]:
        return vocabulary.pieces(vocabulary.encode(text))

    assert pieces("the cats, catting") == ["the_", "cats_", ", _", "cat", "t", "ing_"]
    assert pieces("101 ä") == ["10", "1", "_", "ä_"]
    assert pieces("日") == ["\\", "2", "6", "0", "8", "5", ";", "_"]
    assert pieces("_") == ["\\", "u", "_"]


def test_shown_as_sentencepiece_names_its_pieces(vocabulary: SubwordVocabulary) -> None:
    wanted = ["▁the", "▁cats", "▁,", "▁cat", "t", "ing", "</s>"]
    assert vocabulary.display_pieces([*vocabulary.encode("the cats, catting"), 1]) == wanted
    assert vocabulary.display_pieces(vocabulary.encode(" 101 ä")) == ["▁", "_", "▁10", "1", "_", "▁ä"]
    ids = vocabulary.encode("in  日")
    assert vocabulary.display_pieces(ids) == ["▁in", "_", "▁", "▁", "_", *"▁\\ 2 6 0 8 5 ; _".split()]


def test_ids_give_the_text_again(vocabulary: SubwordVocabulary) -> None:
    for text in [*HARD, *HARD]:  # the second time from the cache
        assert vocabulary.text_of(vocabulary.encode(text)) == text


@pytest.mark.parametrize(
    ("escaped", "text"),
    [
        ("\\55296;_", "\u3013"),  # half of a surrogate pair
        ("\\1114112;_", "\u3013"),
        ("\\99999999999999999999;_", "\u3013"),
        ("\\" + "0" * 5000 + "97;_", "a"),
        ("\\;_", "\\;"),
        ("\\u\\\\u_", "_\\u"),
        ("__", ""),
        ("cat_the_", "cat the"),
        ("cat_., _the_", "cat., the"),
    ],
)
def test_decoding_of_what_a_model_may_write(vocabulary: SubwordVocabulary, escaped: str, text: str) -> None:
    assert vocabulary.text_of(vocabulary.ids[char] for char in escaped) == text


def test_decode_ends_at_eos_and_leaves_out_pad(vocabulary: SubwordVocabulary) -> None:
    ids = vocabulary.encode("the cat")
    assert vocabulary.decode([0, *ids, 0, 1, *ids]) == "the cat"
    assert vocabulary.decode([]) == ""
    assert vocabulary.text_of([*ids, 1]) == "the cat<EOS>"
    assert vocabulary.text_of([-1, *ids, vocabulary.size]) == "the cat"
    assert vocabulary.pieces([0, 1, -1, vocabulary.size]) == ["<pad>_", "<EOS>_", "", ""]


def test_pieces_are_read_with_and_without_quotes() -> None:
    quoted = SubwordVocabulary(file_of(PIECES))
    for quote in ('"', ""):
        # Without quotes, white space at the end of a line and pieces made of quotes alone would be lost.
        pieces = [piece for piece in PIECES if quote or (piece == piece.rstrip() and piece[0] not in "'\"")]
        pieces += [] if quote else ["' '", '"\'"', '"""']
        other = SubwordVocabulary(file_of(pieces, quote))
        wanted = pieces if quote else [*pieces[:-3], " ", "'", '"']
        assert other.pieces(range(other.size)) == wanted
        assert other.text_of(other.encode('the cats\' "it"')) == 'the cats\' "it"'
    assert quoted.pieces([PIECES.index("' ' _")]) == ["' ' _"]


def test_pieces_may_hold_what_ends_a_line_elsewhere() -> None:
    vocabulary = SubwordVocabulary(file_of([*PIECES, "a\u2028\u0085\x0b", "\u2028", "\u0085", "\x0b"]))
    assert vocabulary.size == len(PIECES) + 4
    assert len(vocabulary.encode("\u2028")) == 2


def test_of_equal_pieces_the_last_one_counts() -> None:
    vocabulary = SubwordVocabulary(file_of([*PIECES, "the_", ""]))
    assert vocabulary.encode("the") == [len(PIECES)]
    assert vocabulary.pieces([PIECES.index("the_"), len(PIECES), len(PIECES) + 1]) == ["the_", "the_", ""]


def test_padded_with_ids_that_are_no_text(vocabulary: SubwordVocabulary, tmp_path: Path) -> None:
    padded = vocabulary.pad(vocabulary.size + 5)
    padded.save(tmp_path / "vocabulary.subwords")
    padded = SubwordVocabulary.load(tmp_path / "vocabulary.subwords")
    assert padded.size == vocabulary.size + 5
    assert padded.text_of([vocabulary.size + 4, *vocabulary.encode("the cat")]) == "the cat"
    assert [padded.encode(text) for text in HARD] == [vocabulary.encode(text) for text in HARD]
    assert vocabulary.pad(vocabulary.size) is vocabulary


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"", "The file is empty; a subword vocabulary of tensor2tensor has a piece on each line"),
        (b"'<pad>'\n'<EOS>'\n'\xff'\n", "Line 3 is not UTF-8"),
        (b"the\ncat\n", "begins with 'the' and 'cat'; a subword vocabulary of tensor2tensor begins with"),
        (b"\n", "begins with ''"),
        (file_of(PIECES[:30]), r"no pieces for \d+ single characters \(.*, \.\.\.\).*cut off or damaged"),
        (file_of([piece for piece in PIECES if piece != ";"]), r"no pieces for 1 single characters \(';'\)"),
    ],
)
def test_bad_files(tmp_path: Path, data: bytes, match: str) -> None:
    path = tmp_path / "vocab.subwords"
    path.write_bytes(data)
    with pytest.raises(DataError, match=match) as raised:
        SubwordVocabulary.load(path)
    assert str(raised.value).startswith(f"{path}: ")


def test_equal_to_tensor2tensor(shared_data: Callable[[str], Path]) -> None:
    folder = shared_data("t2t_golden") / "subwords"
    texts = json.loads((folder / "texts.json").read_text("utf-8"))
    compared = golden(folder)
    assert compared
    for path, wanted in compared.items():
        vocabulary = SubwordVocabulary.load(path)
        assert vocabulary.size == wanted["vocab_size"]
        assert differing(vocabulary.encode_many(texts), wanted["ids"], texts) == []
        assert differing(list(map(vocabulary.text_of, wanted["ids"])), wanted["decoded"], texts) == []
        assert list(map(vocabulary.text_of, wanted["random_ids"])) == wanted["random_decoded"]
