import itertools
import re
import tarfile
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from t2t_lite.data.sources import decode_lines, read_lines
from t2t_lite.errors import DataError
from t2t_lite.text.trees import tree as trees
from t2t_lite.text.trees.tree import Leaf, Tree

CAT = "(S (NP (DT the) (NN cat)) (VP (VBZ sleeps) (PP (IN on) (NP (NNS mats)))) (. .))"


def read(text: str) -> list[str]:
    return [str(tree) for tree in trees.read_trees(text.split("\n"), "x.mrg")]


def normalized(text: str) -> str:
    return str(trees.normalize(trees.parse(text)))


def test_a_tree_knows_its_parts() -> None:
    tree = trees.parse(CAT)
    assert tree.nodes[:5] == ("S", "NP", Leaf("DT", "the"), Leaf("NN", "cat"), None)
    assert tree.words == "the cat sleeps on mats .".split()
    assert [leaf.tag for leaf in tree.leaves] == "DT NN VBZ IN NNS .".split()
    assert tree.spans() == [("S", 0, 6), ("NP", 0, 2), ("VP", 2, 5), ("PP", 3, 5), ("NP", 4, 5)]
    assert str(tree) == CAT
    assert tree.pretty() == (
        "(S\n  (NP (DT the) (NN cat))\n  (VP (VBZ sleeps)\n    (PP (IN on)\n      (NP (NNS mats))))\n  (. .))"
    )
    assert trees.parse(tree.pretty()) == tree


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(NP (DT a)) (NP(DT b))(NP(DT\tc))", ["(NP (DT a))", "(NP (DT b))", "(NP (DT c))"]),
        ("\n( (S\n    (NP-SBJ-1 (DT a) )\n    (VP\n      (VB b))))\n", ["( (S (NP-SBJ-1 (DT a)) (VP (VB b))))"]),
        ("*x* Copyright (C) 1995 *x*\n; note (\n%% (\n# (\n<S ID=1>\n(NP (DT a))\n</S>", ["(NP (DT a))"]),
        ("(NP\n  (# #)\n  (NN ;)\n  (NN %)\n  (NN <)\n  (NN *))", ["(NP (# #) (NN ;) (NN %) (NN <) (NN *))"]),
        ("(PRN (-LRB- -LRB-) (CD 1\\/2) (-RRB- -RRB-))", ["(PRN (-LRB- -LRB-) (CD 1\\/2) (-RRB- -RRB-))"]),
        ("(NP (CD 1\u00a0000) (NN a\u2028b\x85))", ["(NP (CD 1\u00a0000) (NN a\u2028b\x85))"]),  # one word each
        ("(TOP)\n(ROOT )", ["(TOP)", "(ROOT)"]),  # of a sentence that a parser could not parse
        ("(NN a)", ["(NN a)"]),
        ("(NN a)\n(())\n()\n( ( ) )\n(NN b)", ["(NN a)", "( ())", "()", "( ())", "(NN b)"]),
    ],
)
def test_reads_what_treebanks_hold(text: str, expected: list[str]) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("( (S (NP-SBJ-1 (DT a)) (VP=2 (VB b)) (ADVP|PRT (RB c))))", "(S (NP (DT a)) (VP (VB b)) (ADVP (RB c)))"),
        ("(S (NP (-NONE- *-1)) (VP (VB b) (SBAR (-NONE- 0) (S (-NONE- *T*-1)))))", "(S (VP (VB b)))"),
        ("(S (NP (NP (NP (NN a)))) (X (X (-NONE- *))))", "(S (NP (NP (NP (NN a)))))"),  # unary chains stay
        ("(PRN (-LRB- -LRB-) (PRP$ his) (NN-X a))", "(PRN (-LRB- -LRB-) (PRP$ his) (NN-X a))"),  # tags are no labels
        ("(ROOT (S1 (S (NN a))))", "(S (NN a))"),
        ("(VROOT (S (NE-SB a)))", "(S (NE-SB a))"),
        ("(VROOT (S (NN a)) ($. .))", "(TOP (S (NN a)) ($. .))"),
        ("( (NN a))", "(TOP (NN a))"),
        ("( (NP (NN a)) (. .))", "(TOP (NP (NN a)) (. .))"),
        ("( (NP (NN a)) (VP (-NONE- b)))", "(NP (NN a))"),
        ("(NN a)", "(TOP (NN a))"),
        ("( (S (NP (-NONE- *))))", "None"),
        ("()", "None"),
    ],
)
def test_normalize(text: str, expected: str) -> None:
    assert normalized(text) == expected
    if expected != "None":
        assert normalized(expected) == expected


@pytest.mark.parametrize(
    ("text", "line", "fault"),
    [
        ("(S (NP (DT a))", 1, "the tree that starts here is not closed by the end of the file"),
        ("(S (NN a))\n\n( (S\n  (NN a)\n", 3, "the tree that starts here is not closed by the end of the file"),
        ("(S (NN a)))", 1, "a ) without its ("),
        ("(S (NN a)\n(S (NN a)))", 2, "a tree starts here, but the one of line 1 is not closed"),
        ("( (S (NN a)\n  ( (S (NN a)))))", 2, "a bracket without a label within the tree of line 1; is a ) missing"),
        ("(A (B C D))", 1, "several words in one bracket, (B C D; each word needs its own"),
        ("(A (B C (D e)))", 1, "a bracket opens after the word 'C'; is a ) missing?"),
        ("(A (B c)\n  d)", 2, "'d' stands in no bracket of its own"),
        (
            "(NP (DT the)\n (NN (cat)))",
            2,
            "(cat) in (NN ...) has one word and no tag. If 'cat' is a word, write (NN cat)",
        ),
        ("(S (NP (DT a) (NN b)) (VP))", 1, "(VP) in (S ...) has one word and no tag. If 'VP' is a word, write (S VP)"),
        ("(cat)", 1, "(cat) in (TAG ...) has one word and no tag"),
        ("(S ((NN) cat))", 1, "a bracket without a label within the tree of line 1"),
        ("(S (NN () cat))", 1, "an empty bracket ()"),
        ("(() (A b))", 1, "an empty bracket ()"),
        ("(()\n d)", 2, "'d' stands in no bracket of its own"),
        ("((()))", 1, "a bracket without a label within the tree of line 1"),
    ],
)
def test_broken_treebanks_are_reported_with_file_and_line(text: str, line: int, fault: str) -> None:
    with pytest.raises(DataError, match=re.escape(f"x.mrg, line {line}: {fault}")):
        read(text)


def test_two_words_in_a_bracket_are_no_tag_and_word() -> None:
    text = (
        "(S (NP (DT the) (NN cat)) (VB sees))\n(S\n (NP (NN (pesta olahraga))) (VB ends))\n(S (NN a))\n(S (NN (b c)))"
    )
    with pytest.raises(
        DataError, match=re.escape("x.mrg, line 3: (NN (pesta olahraga)): NN is a tag of words elsewhere, a")
    ):
        read(text)
    assert len(read(text.replace("pesta ", "NN ").replace("(b c)", "(NN c)"))) == 4  # a tag elsewhere
    # A label that is mostly one of phrases, tags in capitals, tags in small letters.
    for text in ("(INTJ (uh oh)) (INTJ (uh ah)) (INTJ a)", "(NN a) (NN (NNX b))", "(np a) (np (pro b)) (s c)"):
        assert read(text)


def test_trees_over_several_lines_become_lines() -> None:
    tree = trees.parse(CAT)
    for lines in (
        f"{tree.pretty()}\n\n{tree.pretty()}\n\n",
        f"( {CAT.replace(' (', chr(10) + chr(9) + '(', 3)})\n{CAT}",
    ):
        found = trees.tree_lines(lines.split("\n"), "x")
        assert [str(trees.normalize(trees.parse(line))) for line in found] == [CAT, CAT]
    lines = [CAT, "(S (NP", "", f" {CAT}", "(S (A a)) (S (B b))", "words", "(S (NP (A a)", "(S"]
    assert trees.tree_lines(lines, "x") is lines  # one tree a line: what is no tree is EVALB's to say
    assert trees.tree_lines(["(S (NP XX )NP )S", "  (S"], "x") == ["(S (NP XX )NP )S", "  (S"]
    with pytest.raises(DataError, match="x, line 1: the tree that starts here is not closed"):
        trees.tree_lines(["(S", " (A a)"], "x")


@pytest.mark.parametrize(("text", "match"), [("(A (B c)) (A (B c))", "one tree, but there are 2"), (" ", "no trees")])
def test_parse_wants_one_tree(text: str, match: str) -> None:
    with pytest.raises(DataError, match=match):
        trees.parse(text)


def test_words_are_escaped_and_become_plain() -> None:
    for plain, escaped in (("(", "-LRB-"), (":)", ":-RRB-"), ("[", "["), ("cat", "cat")):
        assert trees.escape(plain) == trees.escape(escaped) == escaped
    words = {"-LRB-": "(", "-RSB-": "]", "-LCB-": "{", r"1\/2\*": "1/2*", "cat": "cat", "--": "--"}
    assert [trees.unescape(word) for word in words] == [*words.values()]


def test_a_long_file_is_read_tree_by_tree() -> None:
    lines = itertools.repeat(CAT, 3000)
    tracemalloc.start()
    count = sum(1 for _ in trees.read_trees(lines, "x"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 3000
    assert peak < 50_000


def test_an_open_bracket_does_not_fill_the_memory() -> None:
    endless: Iterator[str] = itertools.chain(["(S", *[" (NN a)"] * 9], itertools.repeat(" (NP (NN a)"))
    with pytest.raises(DataError, match="x, line 1: the tree that starts here is not closed after 100,000 brackets"):
        list(trees.read_trees(endless, "x"))


def test_no_depth_is_too_much() -> None:
    deep = "(X " * 5000 + "(NN a)" + ")" * 5000
    tree = trees.parse(deep)
    assert str(tree) == deep
    assert tree == trees.parse(deep) == trees.normalize(tree)
    assert tree.pretty().count("\n") == 4999
    assert tree.spans() == [("X", 0, 1)] * 5000
    assert hash(tree) == hash(Tree(tree.nodes))


@pytest.mark.commit
def test_the_penn_treebank_sample(shared_data: Callable[[str], Path]) -> None:
    """The .mrg files and the files with one tree per line hold the same 3,914 trees, with the counts of SOURCES.md."""
    folder = shared_data("wsj")
    found: list[Tree] = []
    for part in ("train", "dev", "test"):
        path = folder / f"wsj_sample.{part}.trees.gz"
        lines = list(read_lines(path))
        read_here = list(trees.read_trees(lines, path))
        assert [str(tree).replace(" ", "") for tree in read_here] == [line.replace(" ", "") for line in lines]
        found += read_here
    original: list[Tree] = []
    with tarfile.open(folder / "wsj_combined_mrg.tar.gz") as archive:
        for member in sorted(archive.getmembers(), key=lambda member: member.name):
            file = archive.extractfile(member) if member.name.endswith(".mrg") else None
            if file is not None:
                original += trees.read_trees(decode_lines(file, member.name), member.name)
    assert original == found
    plain = [tree for tree in map(trees.normalize, found) if tree is not None]
    assert len(plain) == len(found) == 3914
    assert sum(len(tree.words) for tree in plain) == 94_084
    assert len({label for tree in plain for label, _, _ in tree.spans()}) == 26
    assert max(len(tree.words) for tree in plain) == 249
    assert all(trees.parse(tree.pretty()) == tree for tree in plain[::20])
