"""The treebank of toy_parsing: trees are normal, sentences read as such, and each sentence has one tree."""

import itertools
from collections import Counter

import pytest

from t2t_lite.problems.toy import treebank
from t2t_lite.problems.toy import treebank_words as words
from t2t_lite.text.trees.linearize import linearize, restore
from t2t_lite.text.trees.tree import Tree, normalize, parse

TREES = list(itertools.islice(treebank.trees("tests"), 4000))


def test_trees_are_normal_and_come_back_from_text_and_from_symbols() -> None:
    for tree in TREES:
        assert normalize(tree) == tree
        assert restore(linearize(tree), tree.words) == tree
    assert all(parse(str(tree)) == tree for tree in TREES[:500])


def test_sentences_read_as_sentences() -> None:
    for tree in TREES:
        assert tree.words[0][0].isupper()
        assert tree.words[-1] in (".", "?")
        for article, following in itertools.pairwise(word.lower() for word in tree.words):
            if article in ("a", "an"):
                assert (article == "an") == (following[0] in "aeiou")


def test_lengths() -> None:
    lengths = [len(tree.words) for tree in TREES]
    assert min(lengths) == 5
    assert max(lengths) == 20
    assert 10 < sum(lengths) / len(lengths) < 12
    assert sum(len(linearize(tree)) < 64 for tree in TREES) > 0.99 * len(TREES)  # the length that "tiny" learns


def test_labels_and_tags_vary() -> None:
    labels = Counter(label for tree in TREES for label, _, _ in tree.spans())
    tags = Counter(leaf.tag for tree in TREES for leaf in tree.leaves)
    assert set(labels) == set("ADJP ADVP NP PP PRT QP S SBAR SBARQ SQ VP WHADVP WHNP".split())
    assert set(tags) == set(
        ", . CC CD DT IN JJ JJR MD NN NNP NNS POS PRP PRP$ RB RP TO VB VBD VBG VBN VBP VBZ WDT WP WP$ WRB".split()
    )
    assert min((labels + tags).values()) >= 10


def test_a_sentence_has_one_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    """With few words of each kind, short sentences come again and again; each must always have the same tree."""
    outfits = [noun for noun in words.NOUNS["outfit"] if noun.singular in ("hat", "stick")]
    bases = {"transitive": "eat see chase open enjoy buy", "intransitive": "sleep dance"}
    verbs = {group: [v for v in words.VERBS[group] if v.base in some.split()] for group, some in bases.items()}
    few = (
        "comparatives",
        "days",
        "manner",
        "modals",
        "names",
        "often",
        "plural pronouns",
        "pronouns",
        "plural determiners",
    )
    chosen = {"singular determiners": ["the", "that"], "object pronouns": ["her"], "possessives": ["her"]}
    for table, smaller in (
        (words.NOUNS, {kind: nouns[:1] for kind, nouns in words.NOUNS.items()} | {"outfit": outfits}),
        (words.ADJECTIVES, {kind: adjectives[:1] for kind, adjectives in words.ADJECTIVES.items()}),
        (words.VERBS, verbs),
        (words.WORDS, {name: words.WORDS[name][:1] for name in few} | chosen),
    ):
        for name, rows in smaller.items():
            monkeypatch.setitem(table, name, rows)
    monkeypatch.setattr(treebank, "_repeats", lambda tree: False)
    monkeypatch.setattr(treebank, "MAX_WORDS", 10)
    seen: dict[str, Tree] = {}
    again = 0
    for tree in itertools.islice(treebank.trees("few words"), 3000):
        known = seen.setdefault(" ".join(tree.words), tree)
        again += known is not tree
        assert known == tree
    assert again > 100
