"""What a parser's user sees: trees over exactly the words given, whatever the model writes."""

import pytest

from t2t_lite.errors import DataError
from t2t_lite.text.trees.codec import TreeText
from t2t_lite.text.vocabulary import Vocabulary
from t2t_lite.text.vocabulary_training import train_vocabulary

_SYMBOLS = "(S (NP DT NN )NP (VP VBZ )VP . )S"


@pytest.fixture(scope="module")
def symbols() -> Vocabulary:
    return train_vocabulary([_SYMBOLS, _SYMBOLS], size=100, kind="word")


@pytest.mark.parametrize(
    ("line", "output", "tree", "repaired"),
    [
        ("the cat sleeps .", _SYMBOLS, "(S (NP (DT the) (NN cat)) (VP (VBZ sleeps)) (. .))", False),
        # One word is a bracket, and all kinds of spaces separate the words.
        (" the\t( sleeps  . ", _SYMBOLS, "(S (NP (DT the) (NN -LRB-)) (VP (VBZ sleeps)) (. .))", False),
        ("a\u00a0b", "(S NN )S", "(S (NN a\u00a0b))", False),
        ("cats sleep", "(S NN NN )NP", "(S (NN cats) (NN sleep))", True),
        # Neither (X nor \u2047 counts: the model cannot write the first, and the second is its unknown symbol.
        ("cats sleep", "(S (X NN \u2047 NN )X )S", "(S (NN cats) (NN sleep))", True),
        ("cats sleep", "", "(TOP (XX cats) (XX sleep))", True),
        ("", "(S NN )S", "", False),
    ],
)
def test_trees(symbols: Vocabulary, line: str, output: str, tree: str, repaired: bool) -> None:
    assert TreeText(symbols).output(line, output) == (tree, repaired)


def test_a_reference_may_hold_symbols_that_the_model_never_saw(symbols: Vocabulary) -> None:
    assert TreeText(symbols).reference("x y", "(RRC FW NN )RRC") == "(RRC (FW x) (NN y))"
    with pytest.raises(DataError, match="no tree over these 2 words"):
        TreeText(symbols).reference("x y", "(S NN )S")


@pytest.mark.parametrize(
    ("target", "written"),
    [
        ("(S (NP (DT the) (NN cat)) (VP (VBZ sleeps)) (. .))", _SYMBOLS),
        ("( (S (NP-SBJ-1 (DT the) (NN cat))\n  (VP (VBZ sleeps) (NP (-NONE- *-1))) (. .)) )\n", _SYMBOLS),
        (_SYMBOLS, _SYMBOLS),
        ("(S  NN )NP \t", "(S NN )NP"),  # as a model may write it
        ("(TOP (NP (NN cat)) (VP (VBZ sleeps)))", "(NP NN )NP (VP VBZ )VP"),  # the root of an output with several trees
        ("((NP (-NONE- *)))", ""),
        ("", ""),
    ],
)
def test_a_given_target_is_a_tree_or_its_symbols(symbols: Vocabulary, target: str, written: str) -> None:
    assert TreeText(symbols).target(target, symbols) == written


@pytest.mark.parametrize(
    ("target", "unknown"),
    [
        ("(S (X (NN cat)))", "(X"),
        ("(SQ (NP (NN cat)))", "(SQ"),
        ("(S FW )S", "FW"),
        ("the cat", "the"),
        ("(S \u2047 )S", "\u2047"),
    ],
)
def test_a_target_with_symbols_that_the_model_does_not_have(symbols: Vocabulary, target: str, unknown: str) -> None:
    text = TreeText(symbols)
    assert text.unknown(text.target(target, symbols))[0] == unknown
    with pytest.raises(DataError, match="is not closed"):
        TreeText(symbols).target("(S (NN cat)", symbols)


def test_a_vocabulary_of_words(symbols: Vocabulary, caplog: pytest.LogCaptureFixture) -> None:
    assert sorted(symbols.words()[3:]) == sorted(set(_SYMBOLS.split(" ")))
    assert symbols.decode(symbols.encode(_SYMBOLS)) == _SYMBOLS
    assert caplog.text == ""  # fewer words than `size` are no fault
    long = " ".join(["(ABCDEFG"] * 1000)  # cut for training, but not within a word
    assert train_vocabulary([long], size=10, kind="word").words()[3:] == ["(ABCDEFG"]
