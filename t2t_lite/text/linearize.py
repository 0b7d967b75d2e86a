"""Trees as sequences of symbols and back, after Vinyals et al., "Grammar as a Foreign Language" (2015), section 2.

(S (NP (DT the) (NN cat)) (VP (VBZ sleeps))) becomes

    (S (NP DT NN )NP (VP VBZ )VP )S          or, with one symbol for all tags,     (S (NP XX XX )NP (VP XX )VP )S

The words are left out: they are the parser's input, and known when the tree is restored. A model's output need not be a
tree; `repair` makes a tree from any sequence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence

from t2t_lite.errors import DataError
from t2t_lite.text.tag_table import PUNCTUATION as PUNCTUATION
from t2t_lite.text.tag_table import TAG, WSJ, TagTable
from t2t_lite.text.trees import Leaf, Node, Tree, escape

ROOT = "TOP"  # the node above the parts if a sequence has several roots; EVALB does not count it

# The faults that `repair` may count, in the order in which it looks for them.
FAULTS = {
    "unknown": "symbols that are none, or not of the given ones: left out",
    "extra_leaves": "leaves after the last word: left out",
    "unopened": "closing labels that close no open phrase: left out",
    "crossed": "phrases closed because one around them closes",
    "empty": "phrases without words: left out",
    "missing_leaves": "words without a leaf: put into the phrase that is open at the end, or else into the root",
    "unclosed": "phrases still open at the end: closed there",
    "roots": "a root put above several, or above a word that no phrase holds",
}

SYMBOL = re.compile(r"([()]?)([^() \t\n\r\f\v]+)")
_WORD = re.compile(r"[^() \t\n\r\f\v]+")


def sentence(line: str) -> str:
    """Returns a sentence as a parser reads it: words separated by one space, brackets escaped as in trees."""
    return " ".join(_WORD.findall(escape(line)))


def linearize(tree: Tree, *, tags: bool = True) -> list[str]:
    """Returns the symbols of a tree: "(S" where a phrase opens, a tag for each word, ")S" where it closes.

    Args:
        tree: if a model is to learn from it, the result of `trees.normalize`.
        tags: write each word's own tag; otherwise TAG for all.
    """
    symbols: list[str] = []
    stack: list[str] = []
    for node in tree.nodes:
        if isinstance(node, str):
            stack.append(node)
            symbols.append(f"({node}")
        elif node is None:
            symbols.append(f"){stack.pop()}")
        else:
            symbols.append(node.tag if tags else TAG)
    return symbols


def restore(symbols: Sequence[str], words: Sequence[str], table: TagTable | None = WSJ) -> Tree:
    """Returns the tree of `symbols` over `words`; a TAG becomes the word's own tag in `table`, if there is one.

    Raises:
        DataError: the symbols are not a tree over these words (the message counts the faults), or as `repair`.
    """
    tree, repairs = repair(symbols, words, table=table)
    if repairs:
        counts = ", ".join(f"{fault}: {repairs[fault]}" for fault in FAULTS if fault in repairs)
        raise DataError(
            f"These {len(symbols)} symbols are no tree over these {len(words)} words ({counts}): "
            f"{' '.join(symbols)[:200]}"
        )
    return tree


def repair(
    symbols: Sequence[str],
    words: Sequence[str],
    known: Collection[str] | None = None,
    table: TagTable | None = WSJ,
) -> tuple[Tree, Counter[str]]:
    """Returns a tree over exactly `words` that keeps what it can of `symbols`; for a valid tree, the same as `restore`.

    Args:
        symbols: any sequence.
        words: of the sentence, plain or escaped; at least one.
        known: the symbols that may occur, such as those of the training data; None: any that have the right form.
        table: gives the tag that replaces a TAG, and that of a word without a symbol; None: these get TAG.

    Returns:
        The tree, and how often each of FAULTS was repaired.

    Raises:
        DataError: there are no words, or one is empty or holds a space.
    """
    words = [escape(word) for word in words]
    for word in words:
        if not _WORD.fullmatch(word):
            raise DataError(f"{word!r} cannot be a word of a tree: it is empty or holds a space.")
    if not words:
        raise DataError("A sentence without words has no tree.")
    building = _Building(words, table)
    for symbol in symbols:
        match = SYMBOL.fullmatch(symbol)
        if match is None or (known is not None and symbol not in known):
            building.faults["unknown"] += 1
        elif match[1] == "(":
            building.open(match[2])
        elif match[1] == ")":
            building.close(match[2])
        else:
            building.leaf(match[2])
    return building.finish(), building.faults


def tag_punctuation(tree: Tree, table: TagTable = WSJ) -> tuple[Tree, int]:
    """Returns a model's tree with tags by which EVALB deletes and keeps words as in the gold tree; how many changed.

    Otherwise EVALB would take the sentence for another one and leave it out of the score. Do not pass the treebank's
    own trees through this: hardly any of them change, but some do.
    """
    nodes = tuple(Leaf(table.tag(*node), node.word) if isinstance(node, Leaf) else node for node in tree.nodes)
    changed = sum(new != old for new, old in zip(nodes, tree.nodes, strict=True))
    return Tree(nodes), changed


def _leaf(tag: str, word: str, table: TagTable | None) -> Leaf:
    return Leaf(table.tag(tag, word) if tag == TAG and table is not None else tag, word)


class _Building:
    """A tree that is built symbol by symbol, in time linear in the number of symbols."""

    def __init__(self, words: Sequence[str], table: TagTable | None) -> None:
        self._table = table
        self.faults: Counter[str] = Counter()
        self._words = words
        self._used = 0
        self._nodes: list[Node] = []
        self._open: list[str] = []
        self._count: Counter[str] = Counter()  # of the open labels
        self._roots: list[bool] = []  # for each part outside of all phrases: whether it is a phrase

    def open(self, label: str) -> None:
        self._nodes.append(label)
        self._open.append(label)
        self._count[label] += 1

    def leaf(self, tag: str) -> None:
        if self._used == len(self._words):
            self.faults["extra_leaves"] += 1
            return
        if not self._open:
            self._roots.append(False)
        self._nodes.append(_leaf(tag, self._words[self._used], self._table))
        self._used += 1

    def close(self, label: str) -> None:
        if not self._count[label]:
            self.faults["unopened"] += 1
            return
        while self._open[-1] != label:
            self.faults["crossed"] += 1
            self._close_innermost()
        self._close_innermost()

    def _close_innermost(self) -> None:
        self._count[self._open.pop()] -= 1
        if isinstance(self._nodes[-1], str):
            self.faults["empty"] += 1
            self._nodes.pop()
            return
        self._nodes.append(None)
        if not self._open:
            self._roots.append(True)

    def finish(self) -> Tree:
        """Returns the tree, once all symbols have been taken."""
        missing = len(self._words) - self._used
        if missing:
            self.faults["missing_leaves"] += missing
            in_root = not self._open and self._roots == [True]
            if in_root:
                self._nodes.pop()
            self._nodes += [_leaf(TAG, word, self._table) for word in self._words[self._used :]]
            if in_root:
                self._nodes.append(None)
            elif not self._open:
                self._roots.append(False)
        while self._open:
            self.faults["unclosed"] += 1
            self._close_innermost()
        if self._roots != [True]:
            self.faults["roots"] += 1
            self._nodes = [ROOT, *self._nodes, None]
        return Tree(tuple(self._nodes))
