"""In-order linearisation: reversible on all trees, and repaired by the rules of the bracketed form."""

import itertools
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from t2t_lite import registry
from t2t_lite.data.sources import read_lines
from t2t_lite.problems.toy import treebank
from t2t_lite.text.codecs import codec_of
from t2t_lite.text.trees import linearize as lin
from t2t_lite.text.trees import tree as trees
from t2t_lite.text.trees.codec import InOrderCodec, TreeText
from t2t_lite.text.trees.in_order import to_bracketed, to_in_order
from t2t_lite.text.trees.tree import Leaf, Tree
from t2t_lite.text.vocabulary_training import train_vocabulary
from tests import slips
from tests.text.test_linearize import CAT, draw_tree, sequences


def _recursive(tree: Tree) -> list[str]:
    """Section 3 of the paper: the first child, the label, the other children, the label again."""

    def visit(at: int) -> tuple[list[str], int]:
        node = tree.nodes[at]
        if isinstance(node, Leaf):
            return [node.tag], at + 1
        children, at = [], at + 1
        while tree.nodes[at] is not None:
            child, at = visit(at)
            children.append(child)
        first, *others = children
        return [*first, f"({node}", *itertools.chain(*others), f"){node}"], at + 1

    return visit(0)[0]


def _check(tree: Tree) -> None:
    symbols = lin.linearize(tree)
    in_order = to_in_order(symbols)
    assert in_order == _recursive(tree)
    assert to_bracketed(in_order) == symbols
    assert lin.restore(to_bracketed(in_order), tree.words) == tree


def test_a_tree_in_order() -> None:
    tree = trees.parse(CAT)
    assert to_in_order(lin.linearize(tree)) == "DT (NP NN )NP (S VBZ (VP )VP . )S".split()
    _check(tree)
    _check(trees.parse("(S (S (NP (NP (NP (N a))))))"))


def test_all_trees_that_are_drawn_and_those_of_the_toys_come_back() -> None:
    draw = random.Random(2)
    for _ in range(300):
        _check(draw_tree(draw, draw.randint(1, 12)))
    for tree in itertools.chain(itertools.islice(treebank.trees("any"), 100), slips.trees("any", 100)):
        _check(tree)


@pytest.mark.nightly
def test_all_trees_of_the_wsj_sample_come_back(shared_data: Callable[[str], Path]) -> None:
    folder, number = shared_data("wsj"), 0
    for part in ("train", "dev", "test"):
        path = folder / f"wsj_sample.{part}.trees.gz"
        for tree in trees.read_trees(read_lines(path), path):
            if (normal := trees.normalize(tree)) is not None:
                _check(normal)
                number += 1
    assert number == 3914


def test_broken_sequences_are_repaired_by_the_same_rules() -> None:
    known = {mark + label for mark in "()" for label in "S NP VP PP TOP".split()} | {*"NN VB XX , .".split()}
    seen: Counter[str] = Counter()
    for symbols, words in sequences(400, 5):
        bracketed = to_bracketed(symbols, known)
        assert sorted(bracketed) == sorted(symbols)
        tree, faults = lin.repair(bracketed, words, known)
        assert tree.words == words
        again = to_in_order(lin.linearize(tree))
        assert to_bracketed(again) == lin.linearize(tree)
        seen += faults
    assert set(seen) == set(lin.FAULTS)


@pytest.mark.parametrize(
    ("symbols", "tree"),
    [
        ("A (S B C )S", "(S (A a) (B b) (C c))"),
        ("A (NP )NP (S B", "(S (NP (A a)) (B b) (XX c))"),  # cut
        ("A (NP B )NP C", "(TOP (NP (A a) (B b)) (C c))"),
        ("(S A (NP B )NP C )S", "(S (NP (A a) (B b)) (C c))"),  # opens too early
        ("A (NP B (VP )NP C (S )S", "(TOP (NP (A a) (VP (B b))) (S (C c)))"),  # crossed
        ("A )NP B (S C )S", "(TOP (A a) (S (B b) (C c)))"),  # closes nothing
        ("A <unk> (S B C )S", "(S (A a) (B b) (C c))"),
    ],
)
def test_what_becomes_of_broken_sequences(symbols: str, tree: str) -> None:
    known = {*"A B C".split(), *(mark + label for mark in "()" for label in ("S", "NP", "VP"))}
    assert str(lin.repair(to_bracketed(symbols.split(), known), ["a", "b", "c"], known)[0]) == tree


@pytest.mark.parametrize("name", ["treebank", "wsj_parsing"])
def test_the_option_of_a_problem(name: str, tmp_path: Path) -> None:
    section = tmp_path / ("" if name == "treebank" else "23")
    section.mkdir(exist_ok=True)
    (section / ("dev.trees" if name == "treebank" else "wsj_2301.mrg")).write_text(f"{CAT}\n")
    split = "dev" if name == "treebank" else "test"
    usual, other = (
        registry.problem(name, source_dir=str(tmp_path), **options) for options in ({}, {"linearization": "in_order"})
    )
    [(words, symbols)], [(same, in_order)] = usual.samples(split), other.samples(split)
    assert (words, in_order.split(" ")) == (same, to_in_order(symbols.split(" ")))
    assert "linearization" not in usual.options()
    assert registry.problem(name, **other.options()).options() == other.options()
    assert type(codec_of(usual.settings())) is not InOrderCodec
    assert type(codec_of(other.settings())) is InOrderCodec
    vocabulary = train_vocabulary([in_order], size=50, kind="word")
    outputs = TreeText(vocabulary, in_order=True)
    assert outputs.output(words, in_order) == (CAT, False)
    assert outputs.reference(words, in_order) == CAT
    assert outputs.target(CAT, vocabulary) == outputs.target(in_order, vocabulary) == in_order
    grammar = outputs.grammar()
    assert grammar is not None
    assert grammar.in_order
    assert outputs.describe()["linearization"] == "in_order"
