"""A search constrained to trees in order writes trees over exactly the words of its sentence, and can write each."""

import itertools
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.decoding.beam_search import beam_search
from t2t_lite.decoding.in_order_constraint import InOrderConstraint
from t2t_lite.decoding.sized_graph import SizedGraph
from t2t_lite.decoding.tree_constraint import MOST_OPENED
from t2t_lite.problems.toy import treebank
from t2t_lite.text.trees.in_order import to_bracketed, to_in_order
from t2t_lite.text.trees.linearize import TreeGrammar, linearize, restore
from tests import slips
from tests.decoding.test_tree_constraint import GRAMMAR, SIZES, SYMBOLS, _sources, _transformer
from tests.searches import EOS, PAD, hypotheses


def _searched(beam: int, extra: int, jit: bool = False) -> list[np.ndarray]:
    assert GRAMMAR is not None
    model = _transformer()

    def search(source: Any, sizes: Any, jit: bool = False) -> Any:
        how: dict[str, Any] = {"beam_size": beam, "alpha": 0.6, "extra_length": extra, "early_stop": False, "jit": jit}
        return beam_search(model, source, constraints=[InOrderConstraint(GRAMMAR, sizes)], **how)

    signature = [tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None], tf.int32)]
    graph = SizedGraph(search, signature, jit=jit, what="a search")
    found = graph(_sources(), np.array(SIZES, np.int32), tokens=1024)
    assert graph.jit == jit
    return found


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("beam", "extra", "jit"), [(1, 24, False), (4, 24, False), (7, 6, False), (1, 2, False), (4, 24, True)]
)
def test_every_output_is_a_tree_over_its_words(beam: int, extra: int, jit: bool) -> None:
    """With 2 symbols more than words and end, there is room for one phrase."""
    for size, rows, values in zip(SIZES, *_searched(beam, extra, jit), strict=True):
        there = [row for row, value in zip(hypotheses(rows), values, strict=True) if value > -np.inf]
        assert there
        for row in there:
            assert row[-1] == EOS
            restore(to_bracketed([SYMBOLS[i] for i in row[:-1]]), [f"w{i}" for i in range(size)])  # raises if no tree


@pytest.mark.parametrize("made_up", [False, True])
def test_all_trees_of_a_treebank_can_be_written(made_up: bool) -> None:
    trees = list(slips.trees("any", 50) if made_up else itertools.islice(treebank.trees("any"), 50))
    rows = [to_in_order(linearize(tree)) for tree in trees]
    symbols = ["", "", "", *sorted({symbol for row in rows for symbol in row})]
    grammar = TreeGrammar.of(symbols)
    assert grammar is not None
    longest = max(map(len, rows)) + 1
    ids = np.zeros((len(rows), longest), np.int32)
    for row, written in zip(ids, rows, strict=True):
        row[: len(written) + 1] = [*map(symbols.index, written), EOS]
    constraint = InOrderConstraint(grammar, tf.constant([len(tree.words) for tree in trees]))
    state = constraint.initial(len(trees), 1, longest)
    for step in range(longest):
        allowed = constraint.allowed(state, tf.fill([len(rows)], longest + 40 - step)).numpy()[:, 0]
        for row, may in zip(ids[:, step], allowed, strict=True):
            if row == PAD:
                continue
            assert may[row]
            assert not may[[0, 2]].any()
            assert may[EOS] or row != EOS
            assert sum(may[i] for i, symbol in enumerate(symbols) if symbol.startswith(")")) <= 1
        state = constraint.advance(state, tf.constant(ids[:, step, None]))


def test_phrases_cannot_open_without_end() -> None:
    assert GRAMMAR is not None
    constraint = InOrderConstraint(GRAMMAR, tf.constant([3]))
    state, remaining = constraint.initial(1, 1, 500), tf.constant([400])
    symbols = [SYMBOLS.index(symbol) for symbol in ("NN", "(NP", ")NP")]
    state = constraint.advance(state, tf.constant([symbols[:1]]))
    for _ in range(MOST_OPENED):
        for symbol in symbols[1:]:
            may = constraint.allowed(state, remaining).numpy()[0, 0]
            if not may[symbol]:
                break
            state = constraint.advance(state, tf.constant([[symbol]]))
    assert not may[symbols[2]]  # the root may not close, as no other could open around it
    assert may[symbols[0]]
