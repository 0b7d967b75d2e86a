"""A graph aligns tags with words as Python does: damaged trees of many kinds, with the tags of their treebank."""

import itertools
import random
from collections.abc import Sequence

import pytest

from t2t_lite.ids import UNK
from t2t_lite.problems.toy import treebank
from t2t_lite.text.trees import linearize as lin
from t2t_lite.text.trees.tag_table import TagTable
from t2t_lite.text.trees.tree import Tree
from tests import slips
from tests.export.test_tag_set_ops import trees as in_graph
from tests.text.test_tag_alignment import learned


def _damaged(draw: random.Random, symbols: Sequence[str], known: Sequence[str]) -> list[str]:
    found = list(symbols)
    for _ in range(draw.choice([1, 1, 2, 4])):
        kind = draw.choice(["left out", "doubled", "any", "cut"])
        if kind == "any":
            at = draw.randrange(len(found) + 1)
            found[at : at + draw.choice([0, 1, 3])] = draw.choices(known, k=draw.choice([0, 1, 2]))
        elif kind == "cut" and draw.random() < 0.2:
            del found[draw.randrange(len(found)) :]
        elif any(symbol[0] not in "()" for symbol in found):
            found = slips.slipped(draw, found, kind)
    return found or [*known[:1]]


def _same(gold: Sequence[Tree], rows: Sequence[list[str]], known: Sequence[str], table: TagTable) -> int:
    """Asserts that graph and Python make the same trees; returns how many symbols were out of place."""
    found = in_graph([*("", "", ""), *known], table, rows, [" ".join(tree.words) for tree in gold])
    count = 0
    for tree, row, text in zip(gold, rows, found, strict=True):
        expected, faults = lin.repair(row, tree.words, frozenset(known), table)
        assert text == str(lin.tag_punctuation(expected, table)[0]), (row, tree.words)
        count += faults["extra_leaves"] + faults["missing_leaves"]
    return count


@pytest.mark.nightly
@pytest.mark.parametrize("made_up", [False, True])
def test_damaged_trees_become_those_of_python(made_up: bool) -> None:
    make = slips.trees if made_up else lambda seed, count: itertools.islice(treebank.trees(seed), count)
    table, gold = learned(list(make("to learn from", 300))), list(make("unseen", 400))
    symbols = [lin.linearize(tree) for tree in gold]
    known = sorted({symbol for row in symbols for symbol in row} | {"XX", "(Q", ")Q"})
    assert UNK == 2
    draw = random.Random(5)
    assert _same(gold, [_damaged(draw, row, known) for row in symbols], known, table) > 300


@pytest.mark.nightly
def test_sentences_of_hundreds_of_words() -> None:
    table = learned(list(itertools.islice(treebank.trees("to learn from"), 300)))
    parts = [list(itertools.islice(treebank.trees(seed), 40)) for seed in ("a", "b", "c")]
    gold = [Tree(("TOP", *(node for tree in trees for node in tree.nodes), None)) for trees in parts]
    symbols = [lin.linearize(tree) for tree in gold]
    known = sorted({symbol for row in symbols for symbol in row})
    draw = random.Random(6)
    rows = [_damaged(draw, row, known) for row in symbols]
    rows[1] = [symbol for symbol in symbols[1] if symbol[0] in "()" or draw.random() < 0.7]  # far beyond the band
    rows[2] = [copy for symbol in symbols[2] for copy in [symbol] * draw.choice([1, 1, 2])]
    assert _same(gold, rows, known, table) > 200
