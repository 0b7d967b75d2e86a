"""Leaves of treebanks that are no words: notes, references, and empty elements that are not tagged -NONE-.

The Penn-Helsinki corpora and their kin have (NP-SBJ *con*), (C 0), (CODE <P_3>) and (ID MALORY,2.3).
"""

import re
from collections.abc import Collection

from t2t_lite.text.trees.tree import Leaf, Node, Tree

_NOTES = ("ID", "CODE", "METADATA")
_EMPTY = re.compile(r"(\*[A-Za-z?]+\*|\*(?=-))(?:-\d+)?")  # *con*, *T*-1, *-2; a word may be * or **
_ZERO_TAG = re.compile(r"C|W[A-Z]*")  # of (C 0) and (WNP-1 0); (CD 0) and (NUM 0) are words
_BASE = re.compile(r"[^-=]*")


def odd_name(leaf: Leaf) -> str | None:
    """Returns the name of what a leaf seems to hold instead of a word, such as "*con*" or "ID"; None for a word."""
    base = _base(leaf.tag)
    if base in _NOTES:
        return base
    if leaf.word == "0" and _ZERO_TAG.fullmatch(base):
        return "0"
    return found[1] if leaf.word.startswith("*") and (found := _EMPTY.fullmatch(leaf.word)) else None


def without(tree: Tree, names: Collection[str]) -> Tree:
    """Returns a tree without the brackets of these labels, function tags aside, and the leaves of these odd names."""
    nodes: list[Node] = []
    depth = 0  # within a phrase that is left out
    for node in tree.nodes:
        opens = isinstance(node, str)
        if depth:
            depth += opens - (node is None)
        elif isinstance(node, str) and _is_named(node, names):
            depth = 1
        elif not isinstance(node, Leaf) or not (_is_named(node.tag, names) or odd_name(node) in names):
            nodes.append(node)
    return Tree(tuple(nodes))


def _is_named(label: str, names: Collection[str]) -> bool:
    return label in names or _base(label) in names


def _base(label: str) -> str:
    found = _BASE.match(label)
    return found[0] if found else label
