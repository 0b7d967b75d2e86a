"""A graph repairs tags as text/trees/tag_table.py does, for each set of tags; gold trees stay as they are."""

import itertools
import random
from collections.abc import Sequence

import pytest
import tensorflow as tf

from t2t_lite.export.lookup_ops import GraphLookup
from t2t_lite.export.tree_ops import GraphTrees
from t2t_lite.ids import UNK
from t2t_lite.problems.parsing import as_pair
from t2t_lite.text.trees import linearize as lin
from t2t_lite.text.trees.tag_table import MARK, MARK_RE2, TagLearner, TagTable
from t2t_lite.text.trees.tree import normalize, parse
from tests.tag_sets import TAG_SETS

UNSEEN = ["zebra", "a\u00a0b", "?!", "\u2026", "-RCB-", "*LSB*", "XX", "_", "\u0663", "\u3007", "\u2160", "\u20e3", "'"]


def learned(name: str) -> tuple[list[str], TagTable, list[tuple[str, str]]]:
    """The symbols by id, the table, and all pairs of (words, symbols), dev included."""
    train, dev = (
        [as_pair(parse(line)) or ("", "") for line in lines] for lines in (TAG_SETS[name].train, TAG_SETS[name].dev)
    )
    counts = TagLearner(TAG_SETS[name].deleted)
    symbols = sorted({symbol for _, target in counts.watch(train) for symbol in target.split(" ")} | {"XX"})
    table = counts.table()
    assert table is not None
    return ["<pad>", "</s>", "<unk>", *symbols], table, train + dev


def trees(symbols: Sequence[str], table: TagTable, rows: Sequence[Sequence[str]], texts: Sequence[str]) -> list[str]:
    ids = [[symbols.index(symbol) for symbol in row] for row in rows]
    padded = tf.constant(list(itertools.zip_longest(*ids, fillvalue=0)), tf.int32)
    graph = GraphTrees(symbols, table)
    signature = [tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None], tf.string)]
    run = tf.function(
        lambda ids, texts: graph.output(ids, graph.source(texts)), input_signature=signature, autograph=False
    )
    return [tree.decode() for tree in run(tf.transpose(padded), tf.constant(texts)).numpy()]


@pytest.mark.nightly
@pytest.mark.parametrize("name", TAG_SETS)
def test_gold_trees_stay_and_any_symbols_give_the_tree_that_python_gives(name: str) -> None:
    symbols, table, pairs = learned(name)
    known = symbols[UNK + 1 :]
    vocabulary = sorted({word for words, _ in pairs for word in words.split(" ")}) + UNSEEN
    draw = random.Random(name)
    gold = trees(symbols, table, [target.split(" ") for _, target in pairs], [words for words, _ in pairs])
    assert gold == [str(normalize(parse(line))) for line in TAG_SETS[name].train + TAG_SETS[name].dev]
    tags = [symbol for symbol in known if symbol[0] not in "()"]
    rows = [draw.choices(known, k=draw.randint(1, 30)) for _ in range(300)]
    rows += [["(S", *draw.choices(tags, k=15), ")S"] if "(S" in known else draw.choices(tags, k=15) for _ in range(300)]
    texts = [" ".join(draw.choices(vocabulary, k=draw.randint(1, 18))) for _ in rows]
    changed = 0
    for row, text, found in zip(rows, texts, trees(symbols, table, rows, texts), strict=True):
        tree, _ = lin.repair(row, text.split(" "), frozenset(known), table)
        tree, number = lin.tag_punctuation(tree, table)
        assert found == str(tree), (row, text)
        assert parse(found).words == text.split(" ")
        changed += number
    assert changed > 100


def test_marks_are_the_same_in_python_and_in_a_graph() -> None:
    """Checks each single character of the Basic Multilingual Plane that both know."""
    characters = [chr(i) for i in range(1, 0x10000) if not 0xD800 <= i < 0xE000 and chr(i) not in " \t\n\r\f\v"]
    found = tf.strings.regex_full_match(tf.constant([c.encode() for c in characters]), MARK_RE2).numpy()
    differ = [c for c, mark in zip(characters, found, strict=True) if bool(mark) != bool(MARK.fullmatch(c))]
    assert len(differ) < 100
    assert not any(c.isprintable() for c in differ)  # characters that only one of the two Unicode versions has


@pytest.mark.parametrize("keys", [[], ["a"], ["b", "a", "\u3002", "c d"], [f"w{i}" for i in range(5000)]])
def test_strings_are_found_in_a_list(keys: list[str]) -> None:
    wanted = [*keys[:10], "x", "", "w4999"]
    index, found = GraphLookup(keys)(tf.constant(wanted))
    assert found.numpy().tolist() == [word in keys for word in wanted]
    assert [keys[i] for i, there in zip(index.numpy(), found.numpy(), strict=True) if there] == [
        word for word in wanted if word in keys
    ]
    assert GraphLookup(keys)(tf.constant([], tf.string))[1].shape == [0]
