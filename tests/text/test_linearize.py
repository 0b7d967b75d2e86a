import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from t2t_lite.data.sources import read_lines
from t2t_lite.errors import DataError
from t2t_lite.text.trees import linearize as lin
from t2t_lite.text.trees import tree as trees
from t2t_lite.text.trees.tree import Tree

CAT = "(S (NP (DT the) (NN cat)) (VP (VBZ sleeps)) (. .))"
LABELS = "S NP VP PP TOP".split()


def repaired(symbols: str, words: str = "a b c") -> tuple[str, dict[str, int]]:
    tree, faults = lin.repair(symbols.split(), words.split())
    return str(tree), dict(faults)


def draw_tree(draw: random.Random, size: int) -> Tree:
    """A random tree over `size` words: brackets are opened and closed at random, then repaired."""
    symbols = ["(S"]
    for _ in range(size):
        symbols += [f"({draw.choice(LABELS)}" for _ in range(draw.choice([0, 0, 1, 2]))]
        symbols.append(draw.choice("NN VB XX , .".split()))
        symbols += [f"){draw.choice(LABELS)}" for _ in range(draw.choice([0, 0, 1, 2]))]
    return lin.repair(symbols, [draw.choice("cat ( ' , . dog".split()) for _ in range(size)])[0]


def sequences(count: int, seed: int) -> Iterator[tuple[list[str], list[str]]]:
    """Symbols and words: noise, and trees with symbols lost, doubled, swapped, changed, cut off or too many."""
    draw = random.Random(seed)
    known = [mark + label for mark in "()" for label in LABELS] + "NN VB XX , .".split()
    for _ in range(count):
        tree = draw_tree(draw, draw.randint(1, 12))
        symbols = lin.linearize(tree, tags=draw.random() < 0.5)
        if draw.random() < 0.3:
            symbols = draw.choices([*known, "(", ")", "<unk>", "(X(Y", "a b", ""], k=draw.randint(0, 40))
        for _ in range(draw.randint(1, 6)):
            at = draw.randrange(len(symbols) + 1)
            change = draw.randrange(5)
            if change == 0:
                del symbols[at : at + draw.randint(1, 3)]
            elif change == 1:
                symbols[at:at] = draw.choices(known, k=draw.randint(1, 3))
            elif change == 2:
                symbols[at : at + 1] = [draw.choice(known)]
            elif change == 3:
                symbols[at:] = symbols[at:][::-1]
            elif draw.random() < 0.2:
                del symbols[at:]
        yield symbols, tree.words


def check_repair(symbols: list[str], words: list[str]) -> Counter[str]:
    """Checks that any sequence gives a well-formed tree over exactly these words, and always the same tree."""
    tree, faults = lin.repair(symbols, words)
    assert tree.words == words
    assert isinstance(tree.nodes[0], str)
    depth, opened = 0, False
    for number, node in enumerate(tree.nodes):
        depth += isinstance(node, str) - (node is None)
        assert depth > 0 or number == len(tree.nodes) - 1, "one root"
        assert not (opened and node is None), "no phrase is empty"
        opened = isinstance(node, str)
    assert depth == 0
    assert set(faults) <= set(lin.FAULTS)
    assert all(count > 0 for count in faults.values())
    assert lin.repair(symbols, words) == (tree, faults)
    # A repaired tree needs no further repair, and a tree that needed none is unchanged.
    again = lin.linearize(tree)
    assert lin.repair(again, words) == (tree, Counter())
    same = len(symbols) == len(again) and all(
        a == b or (a == lin.TAG and b[0] not in "()") for a, b in zip(symbols, again, strict=True)
    )
    assert same != bool(faults)
    return faults


def test_a_tree_becomes_symbols_and_again_a_tree() -> None:
    tree = trees.parse(CAT)
    assert lin.linearize(tree) == "(S (NP DT NN )NP (VP VBZ )VP . )S".split()
    assert lin.linearize(tree, tags=False) == "(S (NP XX XX )NP (VP XX )VP XX )S".split()
    assert lin.restore(lin.linearize(tree), tree.words) == tree
    plain = lin.restore(lin.linearize(tree, tags=False), tree.words)
    assert str(plain) == "(S (NP (XX the) (XX cat)) (VP (XX sleeps)) (. .))"


def test_plain_words_are_escaped() -> None:
    tree = lin.restore("(PRN XX XX XX )PRN".split(), ["(", "x)", ")"])
    assert str(tree) == "(PRN (XX -LRB-) (XX x-RRB-) (XX -RRB-))"
    assert trees.parse(str(tree)) == tree


@pytest.mark.parametrize(
    ("symbols", "tree", "faults"),
    [
        ("(S A B C )S", "(S (A a) (B b) (C c))", {}),
        ("(S A (NP B )NP )S", "(S (A a) (NP (B b)) (XX c))", {"missing_leaves": 1}),
        ("(S A (NP B", "(S (A a) (NP (B b) (XX c)))", {"missing_leaves": 1, "unclosed": 2}),
        ("(S A B C (NP D )NP )S", "(S (A a) (B b) (C c))", {"extra_leaves": 1, "empty": 1}),
        ("(S (NP A B C", "(S (NP (A a) (B b) (C c)))", {"unclosed": 2}),
        ("(S (NP A (VP B )NP C )VP )S", "(S (NP (A a) (VP (B b))) (C c))", {"crossed": 1, "unopened": 1}),
        ("(S A B )NP C )S", "(S (A a) (B b) (C c))", {"unopened": 1}),
        ("(NP A )NP (VP B C )VP", "(TOP (NP (A a)) (VP (B b) (C c)))", {"roots": 1}),
        ("(S A )S (S B )S", "(TOP (S (A a)) (S (B b)) (XX c))", {"roots": 1, "missing_leaves": 1}),
        ("", "(TOP (XX a) (XX b) (XX c))", {"missing_leaves": 3, "roots": 1}),
        ("(S )S", "(S (XX a) (XX b) (XX c))", {"missing_leaves": 3}),
        ("(S A (NP )NP )S", "(S (A a) (NP (XX b) (XX c)))", {"missing_leaves": 2}),
        ("(S ( A B ) C (X(Y )S", "(S (A a) (B b) (C c))", {"unknown": 3}),
        ("(S (NP A )NP", "(S (NP (A a)) (XX b) (XX c))", {"missing_leaves": 2, "unclosed": 1}),
    ],
)
def test_repair(symbols: str, tree: str, faults: dict[str, int]) -> None:
    assert repaired(symbols) == (tree, faults)


def test_repair_leaves_out_what_is_not_known() -> None:
    known = {"(S", ")S", "NN"}
    tree, faults = lin.repair("(S (Q NN )Q ZZ NN )S".split(), ["a", "b"], known)
    assert (str(tree), faults) == ("(S (NN a) (NN b))", Counter(unknown=3))


@pytest.mark.parametrize(
    ("words", "match"),
    [([], "without words has no tree"), (["a", ""], "'' cannot be a word"), (["a b"], "'a b' cannot be a word")],
)
def test_what_cannot_be_words(words: list[str], match: str) -> None:
    with pytest.raises(DataError, match=match):
        lin.repair(["(S", "XX", ")S"], words)


def test_restore_refuses_what_needs_repair() -> None:
    match = "These 4 symbols are no tree over these 1 words (extra_leaves: 1, unclosed: 2): (S (NP XX XX"
    with pytest.raises(DataError, match=re.escape(match)):
        lin.restore("(S (NP XX XX".split(), ["a"])


@pytest.mark.commit
def test_any_sequence_is_repaired() -> None:
    total: Counter[str] = Counter()
    for symbols, words in sequences(2500, seed=1):
        total += check_repair(symbols, words)
    assert set(total) == set(lin.FAULTS)  # the sequences have every fault there is


@pytest.mark.nightly
def test_a_sentence_of_5000_words() -> None:
    words = [f"w{i}" for i in range(5000)]
    right = [symbol for _ in words for symbol in ("(NP", "XX")] + [")NP"] * 5000
    tree = lin.restore(right, words)
    assert lin.linearize(tree, tags=False) == right
    assert tree.spans()[4999] == ("NP", 4999, 5000)
    for symbols in (right[:-5000], right[::-1], right[:5000], ["(NP"] * 15_000, [")NP"] * 15_000, right + right):
        check_repair(symbols, words)


@pytest.mark.nightly
def test_the_penn_treebank_sample_survives(shared_data: Callable[[str], Path]) -> None:
    """All 3,914 trees survive; the symbols of the development trees are tensor2tensor's own."""
    folder = shared_data("wsj")
    count = 0
    for part in ("train", "dev", "test"):
        path = folder / f"wsj_sample.{part}.trees.gz"
        found = [tree for tree in map(trees.normalize, trees.read_trees(read_lines(path), path)) if tree is not None]
        for tree in found:
            assert lin.restore(lin.linearize(tree), tree.words) == tree
            plain = lin.restore(lin.linearize(tree, tags=False), tree.words)
            assert (plain.words, plain.spans()) == (tree.words, tree.spans())
        count += len(found)
        if part == "dev":
            assert [" ".join(tree.words) for tree in found] == list(read_lines(folder / "t2t_linearized.dev.words.gz"))
            # tensor2tensor writes S for (S and /S for )S, so a label would look the same as a tag of that name.
            theirs = [
                " ".join(symbol.lstrip("(").replace(")", "/") for symbol in lin.linearize(tree)) for tree in found
            ]
            assert theirs == list(read_lines(folder / "t2t_linearized.dev.tags.gz"))
    assert count == 3914


@pytest.mark.parametrize(
    ("tree", "tagged", "changed"),
    [
        ("(S (NN a) (. .))", "(S (NN a) (. .))", 0),
        ("(S (NN ,) (. b))", "(S (, ,) (XX b))", 2),
        ("(S (: ,) (`` ''))", "(S (: ,) (`` ''))", 0),  # a mark with another mark's tag is left out anyway
        ("(S ('' ') (POS ') (NN '))", "(S ('' ') (POS ') (NN '))", 0),  # ' may have either kind of tag
    ],
)
def test_punctuation_has_its_tags_and_nothing_else_has_them(tree: str, tagged: str, changed: int) -> None:
    found, number = lin.tag_punctuation(trees.parse(tree))
    assert (str(found), number) == (tagged, changed)
