"""A parser that leaves out or doubles a tag loses little of its tree: tags are aligned with the words."""

import functools
import itertools
import random
from collections.abc import Sequence

import numpy as np
import pytest

from t2t_lite.metrics import bracketing
from t2t_lite.problems.parsing import as_pair
from t2t_lite.problems.toy import treebank
from t2t_lite.text.trees import tag_model
from t2t_lite.text.trees.linearize import linearize, repair, tag_punctuation
from t2t_lite.text.trees.tag_model import MOST, SKIP, TAG, TagModel, align
from t2t_lite.text.trees.tag_table import WSJ, TagLearner, TagTable, parse_table
from t2t_lite.text.trees.tree import Tree
from tests import slips


@functools.cache
def _toy(seed: str, count: int) -> list[Tree]:
    return list(itertools.islice(treebank.trees(seed), count))


def _made_up(seed: str, count: int) -> list[Tree]:
    return list(slips.trees(seed, count))


def learned(trees: Sequence[Tree]) -> TagTable:
    counts = TagLearner(WSJ.deleted)
    for _ in counts.watch(pair for pair in map(as_pair, trees) if pair):
        pass
    table = counts.table()
    assert table is not None
    return table


def f1(gold: Sequence[Tree], symbols: Sequence[Sequence[str]], table: TagTable) -> float:
    trees = [repair(row, tree.words, table=table)[0] for row, tree in zip(symbols, gold, strict=True)]
    found = bracketing.evaluate([str(t) for t in gold], [str(tag_punctuation(t, table)[0]) for t in trees])
    assert not found.total.errors
    return found.total.f1


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("make", "kind", "before", "after"),
    [
        (_toy, "left out", 50, 94),
        (_toy, "doubled", 65, 99),
        (_made_up, "left out", 55, 92),
        (_made_up, "doubled", 55, 97),
    ],
)
def test_one_slip_costs_little(make: object, kind: str, before: float, after: float) -> None:
    """Without a model of tags, the i-th tag is the i-th word's, as it was before tags were aligned."""
    assert callable(make)
    table, gold = learned(make("to learn from", 1500)), make("unseen", 200)
    draw = random.Random(kind)
    symbols = [slips.slipped(draw, linearize(tree), kind) for tree in gold]
    assert f1(gold, symbols, WSJ) < before
    assert f1(gold, symbols, table) > after
    assert f1(gold, [linearize(tree) for tree in gold], table) == 100


def _cost(word_of: Sequence[int | None], tags: Sequence[str], words: Sequence[str], model: TagModel) -> int:
    pairs = [(tag, words[at]) for tag, at in zip(tags, word_of, strict=True) if at is not None]
    fits = sum(int(model.costs[model.row(word), model.column(tag)]) for tag, word in pairs)
    return fits + SKIP * (len(tags) + len(words) - 2 * len(pairs))


def _least_cost(tags: Sequence[str], words: Sequence[str], model: TagModel) -> int:
    """That of the cheapest alignment: the textbook's table, without a band."""
    table = np.full((len(tags) + 1, len(words) + 1), SKIP) * np.add.outer(range(len(tags) + 1), range(len(words) + 1))
    for j, i in itertools.product(range(len(tags)), range(len(words))):
        fit = int(model.costs[model.row(words[i]), model.column(tags[j])])
        table[j + 1, i + 1] = min(table[j, i] + fit, table[j, i + 1] + SKIP, table[j + 1, i] + SKIP)
    return int(table[-1, -1])


def test_no_alignment_is_cheaper() -> None:
    model = learned(_toy("to learn from", 300)).model
    draw = random.Random(3)
    for tree in _toy("unseen", 60):
        tags = [leaf.tag for leaf in tree.leaves]
        for _ in range(draw.randint(1, 6)):
            at = draw.randrange(len(tags) + 1)
            tags[at : at + draw.choice([0, 1, 2])] = draw.choices([*model.tags, "Q"], k=draw.choice([0, 1]))
        found = align(tags, tree.words, model)
        real = [at for at in found if at is not None]
        assert real == sorted(set(real))
        least, in_order = _least_cost(tags, tree.words, model), list(range(len(tags)))
        if len(tags) == len(tree.words) and _cost(in_order, tags, tree.words, model) <= least + SKIP:
            assert found == in_order
        else:
            assert _cost(found, tags, tree.words, model) == least


def test_long_sentences_are_aligned_within_the_band(monkeypatch: pytest.MonkeyPatch) -> None:
    trees = _toy("unseen", 40)
    leaves = [leaf for tree in trees for leaf in tree.leaves]
    tags, words = [leaf.tag for leaf in leaves], [leaf.word for leaf in leaves]
    model = learned(_toy("to learn from", 300)).model
    lost = {7, 8, 60, 200, 201, 202, 300}
    kept = [i for i in range(len(tags)) if i not in lost]
    found = align([tags[i] for i in kept], words, model)
    assert sum(at != i for at, i in zip(found, kept, strict=True)) <= 6
    monkeypatch.setattr(tag_model, "BAND", 2)
    assert align(["NN"] * 9, ["cat"] * 3, model) == [0, 1, 2, *[None] * 6]
    assert align(["NN"] * 3, ["cat"] * 9, model) == [0, 1, 2]
    assert align([], ["cat"], model) == []


def test_without_a_model_tags_are_taken_in_order() -> None:
    words = "a b c d".split()
    assert align("DT JJ NN".split(), words, TagModel()) == [0, 1, 2]
    assert align("DT JJ JJ NN VB VB".split(), words, TagModel()) == [0, 1, 2, 3, None, None]
    assert TagModel().own("cat") == TAG


def test_a_word_has_its_own_tags_and_an_unknown_one_those_of_its_ending() -> None:
    counts = TagLearner(WSJ.deleted)
    list(counts.watch([("the walker walks", "(S (NP DT NN )NP (VP VBZ )VP )S"), ("the runner", "(NP DT NN )NP")]))
    table = counts.table()
    assert table is not None
    model = table.model
    assert [model.own(word) for word in ("the", "walks", "jumper", "talks", "er", "s", "\u732b")] == [
        *("DT", "VBZ", "NN", "VBZ", "NN", "VBZ"),
        model.own("?"),  # about which nothing is known: the most frequent tag
    ]
    assert model.first == {"DT"}  # VBZ stands first and last
    costs = {tag: int(model.costs[model.row("the"), model.column(tag)]) for tag in ("DT", "NN", "VBZ", "FW")}
    assert costs["DT"] < costs["NN"] <= costs["VBZ"] < costs["FW"] == MOST
    assert parse_table(table.to_json(), "x").model == model


def test_the_model_is_bounded_and_keeps_what_is_frequent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tag_model, "_MOST_HELD", 40)
    monkeypatch.setattr(tag_model, "_MOST_COSTS", 63)
    counts = tag_model.TagModelCounts()
    for i in range(1000):
        counts.add_pairs([(("NN", f"w{i}"), 1), (("DT", "the"), 5), (("VB", "sees"), 2)])
        assert len(counts._words) <= 42
    model = counts.model()
    assert {"the", "sees"} <= {*model.words}
    assert (len(model.tags), len(model.rows)) == (3, 21)
