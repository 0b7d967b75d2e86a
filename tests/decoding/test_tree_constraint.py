"""A constrained search writes trees over exactly the words of its sentence, whatever its model would like to write."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.decoding.beam_search import beam_search
from t2t_lite.decoding.sampling import Sampling, sample
from t2t_lite.decoding.sized_graph import SizedGraph
from t2t_lite.decoding.tree_constraint import MOST_OPENED, TreeConstraint
from t2t_lite.models.ensemble import Ensemble
from t2t_lite.models.rnn import Rnn
from t2t_lite.models.rnn_hparams import RnnHParams
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.problems.toy import treebank
from t2t_lite.samplers.base import make_sampler
from t2t_lite.text.trees.linearize import TreeGrammar, linearize, restore
from tests import reference, slips
from tests.searches import EOS, PAD, Searches, hypotheses, without_padding

SYMBOLS = "<pad> </s> <unk> (S )S (NP )NP (VP )VP NN VB DT XX (Q )R".split()  # (Q never closes, )R never opens
V = len(SYMBOLS)
GRAMMAR = TreeGrammar.of(SYMBOLS)
SIZES = [1, 2, 3, 5, 9, 4, 1]
Prefix = tuple[int, ...]


def _sources() -> np.ndarray:
    """Sources of a piece for each word and EOS; one has a piece more."""
    rows = np.zeros((len(SIZES), max(SIZES) + 2), np.int32)
    for i, size in enumerate(SIZES):
        length = size + (i == 2)
        rows[i, :length], rows[i, length] = np.random.default_rng(i).integers(2, V, length), EOS
    return rows


def _transformer(seed: int = 4) -> Transformer:
    hparams = TransformerHParams(num_layers=1, d_model=16, d_ff=32, num_heads=2)
    model = Transformer.from_hparams(hparams, V, V, True)
    reference.randomise(model, seed, 2.0)
    return model


def _ensemble() -> Ensemble:
    rnn = Rnn.from_hparams(RnnHParams(num_layers=1, d_model=8, dropout=0.0), V, V, True)
    reference.randomise(rnn, 4, 2.0)
    return Ensemble([_transformer(), rnn])


def _searched(
    model: Any, beam: int, extra: int, early: bool = True, sampler: str | None = None, jit: bool = False
) -> Any:
    assert GRAMMAR is not None

    def search(source: Any, sizes: Any, jit: bool = False) -> Any:
        constraint = TreeConstraint(GRAMMAR, sizes)
        if sampler:
            sampling = Sampling(make_sampler(sampler, {}), 3)
            options: dict[str, Any] = {"num_samples": beam, "extra_length": extra, "constraints": [constraint]}
            return sample(model, source, sampling, **options, jit=jit)
        options = {"beam_size": beam, "alpha": 0.6, "extra_length": extra, "early_stop": early}
        return beam_search(model, source, **options, constraints=[constraint], jit=jit)

    signature = [tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None], tf.int32)]
    graph = SizedGraph(search, signature, jit=jit, what="a search")
    found = graph(_sources(), np.array(SIZES, np.int32), tokens=1024)
    assert graph.jit == jit
    return found


def _assert_trees(ids: np.ndarray, scores: np.ndarray) -> None:
    for size, rows, values in zip(SIZES, ids, scores, strict=True):
        for row, value in zip(hypotheses(rows), values, strict=True):
            assert row[-1] == EOS
            assert np.isfinite(value)
            tree = restore([SYMBOLS[i] for i in row[:-1]], [f"w{i}" for i in range(size)])  # raises unless it is one
            assert len(tree.words) == size


@pytest.mark.commit("_transformer-None")
@pytest.mark.parametrize(
    ("make", "sampler"),
    [
        (_transformer, None),
        (_ensemble, None),
        (_ensemble, "random"),
        (_transformer, "top_k"),
        (_transformer, "nucleus"),
    ],
)
def test_every_output_is_a_tree_over_its_words(make: Any, sampler: str | None) -> None:
    _assert_trees(*_searched(make(), 4, 24, early=False, sampler=sampler))


@pytest.mark.nightly
def test_a_short_budget_closes_in_time() -> None:
    """A source's length, its end symbol included, and 2: one phrase around the words, and the end."""
    ids, scores = _searched(_transformer(), 1, 2)
    _assert_trees(ids, scores)
    ids, _ = _searched(_transformer(), 1, 0)  # too short for any tree: cut, with as many tags as there is room for
    assert all(SYMBOLS[row[0, 0]][0] == "(" for row in ids)
    assert EOS not in ids[0]


class _Slow(Searches):
    """The plain search, among the symbols that a plain reading of the rules allows."""

    def __init__(self, model: Any, extra: int) -> None:
        super().__init__(model)
        self._extra = extra

    def logp(self, source: Prefix, prefixes: list[Prefix]) -> np.ndarray:
        table = super().logp(source, prefixes).copy()
        words = SIZES[[without_padding(row) for row in _sources()].index(source)]
        longest = len(source) + self._extra
        for row, prefix in zip(table, prefixes, strict=True):
            row[[i for i in range(V) if not _allowed([SYMBOLS[j] for j in prefix], i, words, longest)]] = -np.inf
        return table


def _allowed(prefix: Sequence[str], symbol: int, words: int, longest: int) -> bool:
    stack: list[str] = []
    tags = 0
    for written in prefix:
        if written[0] == "(":
            stack.append(written[1:])
        elif written[0] == ")":
            stack.pop()
        else:
            tags += 1
    name = SYMBOLS[symbol]
    if symbol == EOS:
        return bool(prefix) and not stack and tags == words
    if name in ("(S", "(NP", "(VP"):
        if not stack:
            return not prefix
        return tags < words and len(prefix) + 1 + (words - tags) + len(stack) + 1 + 1 <= longest
    if name in (")S", ")NP", ")VP"):
        whole = len(stack) > 1 or tags == words
        return bool(stack) and stack[-1] == name[1:] and prefix[-1][0] != "(" and whole
    return name in ("NN", "VB", "DT", "XX") and bool(stack) and tags < words


@pytest.mark.commit("4-True")
@pytest.mark.parametrize(("beam", "early"), [(1, True), (4, True), (4, False)])
def test_fast_equals_slow(beam: int, early: bool) -> None:
    model, extra = _transformer(), 9
    slow = _Slow(model, extra)
    for source, ids, scores in zip(_sources(), *_searched(model, beam, extra, early), strict=True):
        wanted = slow.slow(without_padding(source), beam, 0.6, early, extra)
        found = [(row, score) for row, score in zip(ids, scores, strict=True) if score > -np.inf]
        assert hypotheses(np.array([row for row, _ in found])) == [hypothesis for hypothesis, _ in wanted]
        np.testing.assert_allclose([score for _, score in found], [score for _, score in wanted], rtol=0, atol=1e-4)


@pytest.mark.parametrize("made_up", [False, True])
def test_all_trees_of_a_treebank_can_be_written(made_up: bool) -> None:
    """And nothing else can: after each symbol of a tree, no other bracket closes and no output ends early."""
    trees = list(slips.trees("any", 50) if made_up else itertools.islice(treebank.trees("any"), 50))
    rows = [linearize(tree) for tree in trees]
    symbols = ["", "", "", *sorted({symbol for row in rows for symbol in row})]
    grammar = TreeGrammar.of(symbols)
    assert grammar is not None
    longest = max(map(len, rows)) + 1
    ids = np.zeros((len(rows), longest), np.int32)
    for row, written in zip(ids, rows, strict=True):
        row[: len(written) + 1] = [*map(symbols.index, written), EOS]
    constraint = TreeConstraint(grammar, tf.constant([len(tree.words) for tree in trees]))
    state = constraint.initial(len(trees), 1, longest)
    for step in range(longest):
        allowed = constraint.allowed(state, tf.fill([len(rows)], longest + 40 - step)).numpy()[:, 0]
        for row, may in zip(ids[:, step], allowed, strict=True):
            if row == PAD:
                continue
            assert may[row]
            assert not may[[0, 2]].any()
            assert may[EOS] == (row == EOS)
            assert sum(may[i] for i, symbol in enumerate(symbols) if symbol.startswith(")")) <= 1
        state = constraint.advance(state, tf.constant(ids[:, step, None]))


def test_phrases_cannot_open_without_end() -> None:
    assert GRAMMAR is not None
    constraint = TreeConstraint(GRAMMAR, tf.constant([3]))
    state, remaining = constraint.initial(1, 1, 500), tf.constant([400])
    opens = 0
    while constraint.allowed(state, remaining).numpy()[0, 0, SYMBOLS.index("(NP")]:
        state = constraint.advance(state, tf.constant([[SYMBOLS.index("(NP")]]))
        opens += 1
    assert opens == MOST_OPENED
    assert constraint.allowed(state, remaining).numpy()[0, 0].nonzero()[0].tolist() == [9, 10, 11, 12]


@pytest.mark.parametrize("symbols", ["", "(S )S", "(S NN", "NN VB", "(S )NP NN"])
def test_symbols_that_can_write_no_tree_have_no_grammar(symbols: str) -> None:
    assert TreeGrammar.of(["<pad>", "</s>", "<unk>", *symbols.split()]) is None


@pytest.mark.nightly
@pytest.mark.parametrize("sampler", [None, "random"])
def test_a_program_of_xla_writes_the_same_trees(sampler: str | None) -> None:
    (ids, scores), (wanted, wanted_scores) = (
        _searched(_transformer(), 4, 40, False, sampler, jit) for jit in (True, False)
    )
    _assert_trees(ids, scores)
    assert [hypotheses(rows) for rows in ids] == [hypotheses(rows) for rows in wanted]
    np.testing.assert_allclose(scores, wanted_scores, rtol=0, atol=1e-4)
