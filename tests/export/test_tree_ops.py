"""A graph makes the same trees as text/trees/linearize.py, for any output of a model and any words."""

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.framework import op_def_registry

from t2t_lite.data.sources import read_lines
from t2t_lite.export.tree_ops import GraphTrees
from t2t_lite.ids import EOS, PAD, UNK
from t2t_lite.text.trees import linearize as lin
from t2t_lite.text.trees import tree as trees
from t2t_lite.text.trees.tag_table import PUNCTUATION

LABELS = "S NP VP TOP".split()
NOT_SYMBOLS = ["(", ")", "", "(X(Y", "a b", "()"]
SYMBOLS = [
    *("<pad>", "</s>", "(S"),  # the last one is UNK, in spite of its name
    *(bracket + label for label in LABELS for bracket in "()"),
    *("NN VB , -LRB- XX )Q (Ä").split(),
    *NOT_SYMBOLS,
]
KNOWN = frozenset(SYMBOLS[UNK + 1 :])
ID = {symbol: i for i, symbol in enumerate(SYMBOLS) if i > UNK}
WORDS = [
    "cat",
    "don't",
    "(",
    "x)",
    *PUNCTUATION,
    "naïve",
    "a\u00a0b",
    "\u3000",
    "\x1c",
    "👩‍👩‍👧",
    "\0",
    "\\",
    "-RRB-",
]

Make = Callable[[Sequence[Sequence[int]], Sequence[str | bytes]], list[str]]


class Module(tf.Module):
    def __init__(self, symbols: Sequence[str] = SYMBOLS) -> None:
        super().__init__()
        self.graph_trees = GraphTrees(symbols)
        signature = [tf.TensorSpec([None, None], tf.int32, "ids"), tf.TensorSpec([None], tf.string, "texts")]
        self.trees = tf.function(self._trees, input_signature=signature, autograph=False)

    def _trees(self, ids: Any, texts: Any) -> Any:
        return self.graph_trees.output(ids, self.graph_trees.source(texts))


def making(run: Callable[..., Any]) -> Make:
    """Returns a function that makes trees from ids of any lengths."""

    def make(ids: Sequence[Sequence[int]], texts: Sequence[str | bytes]) -> list[str]:
        padded = list(itertools.zip_longest(*ids, fillvalue=PAD))
        table = tf.transpose(tf.constant(padded, tf.int32, [len(padded), len(ids)]))
        return [tree.decode() for tree in run(ids=table, texts=tf.constant(texts, tf.string, [len(texts)])).numpy()]

    return make


@pytest.fixture(scope="module")
def module() -> Module:
    return Module()


@pytest.fixture
def make(module: Module) -> Make:
    return making(module.trees)


def repaired(ids: Sequence[int], text: str) -> tuple[str, Counter[str]]:
    """The tree of ids over a text that is not blank, and what was repaired."""
    symbols = [SYMBOLS[i] if i != UNK else "" for i in itertools.takewhile(EOS.__ne__, ids) if i != PAD]
    tree, faults = lin.repair(symbols, lin.sentence(text).split(" "), KNOWN)
    return str(lin.tag_punctuation(tree)[0]), faults


def draw_ids(draw: random.Random, size: int) -> list[int]:
    """The symbols of a tree over `size` words, changed at some places."""
    symbols, stack = ["(S"], ["S"]
    for _ in range(size):
        for label in draw.choices(LABELS, k=draw.choice([0, 0, 1, 2])):
            symbols.append(f"({label}")
            stack.append(label)
        symbols.append(draw.choice("NN VB , XX".split()))
        while len(stack) > 1 and draw.random() < 0.5:
            symbols.append(f"){stack.pop()}")
    ids = [ID[symbol] for symbol in symbols] + [ID[f"){label}"] for label in reversed(stack)]
    for _ in range(draw.choice([0, 1, 2, 5])):
        at = draw.randrange(len(ids) + 1)
        ids[at : at + draw.choice([0, 1, 1, 3])] = draw.choices(range(len(SYMBOLS)), k=draw.choice([0, 1, 1, 3]))
    return ids


def drawn(seed: int, count: int) -> Iterator[tuple[list[int], str]]:
    draw = random.Random(seed)
    for _ in range(count):
        size = draw.randint(1, 12)
        words = draw.choices(WORDS, k=size)
        text = "".join(word + "".join(draw.choices(" \t\n\r\f\v", k=draw.choice([1, 1, 3]))) for word in words)
        if draw.random() < 0.2:
            yield draw.choices(range(len(SYMBOLS)), k=draw.randint(0, 40)), text
        else:
            yield draw_ids(draw, max(size + draw.choice([-2, -1, 0, 0, 0, 0, 1, 2]), 0)), text


@pytest.mark.nightly
def test_any_symbols_give_the_tree_of_repair(make: Make) -> None:
    total: Counter[str] = Counter()
    identities = 0
    for seed in range(6):
        ids, texts = zip(*drawn(seed, 500), strict=True)
        for row, text, tree in zip(ids, texts, make(ids, texts), strict=True):
            if not text.strip():
                assert tree == ""
                continue
            expected, faults = repaired(row, text)
            assert tree == expected, (row, text)
            total += faults
            identities += not faults
    assert set(total) == set(lin.FAULTS)
    assert identities > 300


@pytest.mark.parametrize(
    ("symbols", "text", "tree"),
    [
        ("(S NN VB )S", "a b", "(S (NN a) (VB b))"),
        ("(S (NP NN (VP VB )S", "a b", "(S (NP (NN a) (VP (VB b))))"),  # a bracket that closes three phrases
        ("(NP NN )NP", "a b ?", "(NP (NN a) (XX b) (. ?))"),
        ("(NP NN )NP (VP", "a b", "(TOP (NP (NN a)) (VP (XX b)))"),
        ("(TOP NN )TOP NN", "a b", "(TOP (TOP (NN a)) (NN b))"),
        (")Q )S (VP )VP", "a ''", "(VP (XX a) ('' ''))"),
        ("(S NN , NN )S", "a b '", "(S (NN a) (XX b) (NN '))"),  # ' is punctuation or a word's end
    ],
)
def test_what_trees_look_like(make: Make, symbols: str, text: str, tree: str) -> None:
    ids = [ID[symbol] for symbol in symbols.split()]
    assert make([ids], [text]) == [tree]
    assert repaired(ids, text)[0] == tree
    # Symbols after the end are not read, meaningless ones are skipped, and neighbours do not matter.
    odd = [i for real in ids for i in (PAD, UNK, real, ID["a b"])]
    assert make([[*odd, EOS, ID["(S"], EOS], [ID[")S"]] * 40], [text, "x"]) == [tree, "(TOP (XX x))"]


@pytest.mark.parametrize("blank", ["", " ", " \t\n\r\f\v", "\u00a0", "\u3000 \u2028", "\x1c\x85"])
def test_a_blank_text_has_no_tree(make: Make, blank: str) -> None:
    ids = [ID["(S"], ID["NN"], ID[")S"]]
    assert make([ids, ids, [], []], [blank, "a", blank, "b"]) == ["", "(S (NN a))", "", "(TOP (XX b))"]
    assert make([], []) == []


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b" \t(a  b)\r\n", "-LRB-a b-RRB-"),
        ("a\u00a0b \u3000 c\x1c".encode(), "a\u00a0b \u3000 c\x1c"),
        ("\u00a0à\u00a0".encode(), "\u00a0à\u00a0"),
        ("👩‍👩‍👧 🇩🇪".encode(), "👩‍👩‍👧 🇩🇪"),
        (b"a\0b", "a\0b"),
        (b"na\xefve \xff", "na\ufffdve \ufffd"),
        (b"cut \xe4\xb8", "cut \ufffd"),
        (b"", ""),
        (b"\v\f", ""),
    ],
)
def test_sentences_are_as_a_parser_reads_them(module: Module, make: Make, text: bytes, sentence: str) -> None:
    (found,) = module.graph_trees.source(tf.constant([text])).numpy()
    assert found.decode() == sentence == lin.sentence(text.decode("utf-8", "replace"))
    leaves = " ".join(f"(XX {word})" for word in sentence.split(" "))
    assert make([[]], [text]) == [f"(TOP {leaves})" if sentence else ""]


@pytest.mark.commit
def test_long_sentences(make: Make) -> None:
    """Checks trees that are flat, as deep as long, never closed, closed at once, or nothing but brackets."""
    size = 2000
    words = " ".join(f"w{i}" for i in range(size))
    deep = [ID["(NP"], ID["NN"]] * size
    rows = [
        deep + [ID[")NP"]] * size,
        deep,
        [ID["(S"], *deep, ID[")S"], ID[")S"]],
        [ID["(S"], *[ID["NN"]] * (size + 100), ID[")S"]],
        [ID["(VP"]] * (2 * size),
        [ID[")VP"]] * size,
        draw_ids(random.Random(1), size),
    ]
    assert make(rows, [words] * len(rows)) == [repaired(row, words)[0] for row in rows]


@pytest.mark.commit
def test_the_penn_treebank_sample_stays_as_it_is(shared_data: Callable[[str], Path]) -> None:
    path = shared_data("wsj") / "wsj_sample.dev.trees.gz"
    found = [tree for tree in map(trees.normalize, trees.read_trees(read_lines(path), path)) if tree is not None]
    symbols = [lin.linearize(tree) for tree in found]
    names = ["<pad>", "</s>", "<unk>", *sorted({symbol for row in symbols for symbol in row})]
    number = {name: i for i, name in enumerate(names)}
    ids = [[*(number[symbol] for symbol in row), EOS] for row in symbols]
    assert making(Module(names).trees)(ids, [" ".join(tree.words) for tree in found]) == [str(tree) for tree in found]


@pytest.mark.commit
def test_it_is_saved_with_core_ops_and_answers_as_before(module: Module, make: Make, tmp_path: Path) -> None:
    tf.saved_model.save(module, str(tmp_path), signatures={"trees": module.trees})
    ids, texts = zip(*drawn(100, 300), strict=True)
    loaded = tf.saved_model.load(str(tmp_path)).signatures["trees"]
    (output,) = loaded.structured_outputs.items()
    assert output[1].shape.as_list() == [None]
    assert making(lambda **inputs: loaded(**inputs)[output[0]])(ids, texts) == make(ids, texts)
    saved = saved_model_pb2.SavedModel.FromString((tmp_path / "saved_model.pb").read_bytes())
    library = saved.meta_graphs[0].graph_def.library.function
    ops = {node.op for function in library for node in function.node_def} - {f.signature.name for f in library}
    assert "UnsortedSegmentJoin" in ops
    assert {op for op in ops if op_def_registry.get(op) is None or "PyFunc" in op or "Table" in op} == set()
