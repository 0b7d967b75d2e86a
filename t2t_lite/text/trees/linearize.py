"""Trees as sequences of symbols and back, after Vinyals et al., "Grammar as a Foreign Language" (2015), section 2.

(S (NP (DT the) (NN cat)) (VP (VBZ sleeps))) becomes

    (S (NP DT NN )NP (VP VBZ )VP )S          or, with one symbol for all tags,     (S (NP XX XX )NP (VP XX )VP )S

The words are left out: they are the parser's input, and known when the tree is restored. A model's output need not be a
tree; `repair` makes a tree from any sequence.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from t2t_lite.errors import DataError
from t2t_lite.ids import UNK
from t2t_lite.text.trees.tag_model import TAG, TagModel, align
from t2t_lite.text.trees.tag_table import WSJ, TagTable
from t2t_lite.text.trees.tree import Leaf, Node, Tree, escape

ROOT = "TOP"  # the node above the parts if a sequence has several roots; EVALB does not count it

# The faults that `repair` may count, in the order in which it looks for them.
FAULTS = {
    "unknown": "symbols that are none, or not of the given ones: left out",
    "extra_leaves": "tags that belong to no word (tag_model.py): left out",
    "unopened": "closing labels that close no open phrase: left out",
    "crossed": "phrases closed because one around them closes",
    "empty": "phrases without words: left out",
    "missing_leaves": "words without a tag: put in, with their most likely tag",
    "unclosed": "phrases still open at the end: closed there",
    "roots": "a root put above several, or above a word that no phrase holds",
}

_NO_MODEL = TagModel()
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

    If there are more or fewer tags than words, they are aligned (tag_model.py). All words without a tag that stand
    together have one place: the first phrase there that would otherwise be empty; else, by the tag of the first of
    them, before the next tag or after the last one. Words after the last tag go into the phrase that is open at the
    end, or else into the root.

    Args:
        symbols: any sequence.
        words: of the sentence, plain or escaped; at least one.
        known: the symbols that may occur, such as those of the training data; None: any that have the right form.
        table: gives the tag that replaces a TAG, and has the model of tags; None: all tags fit all words.

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
    kept: list[tuple[str, str]] = []
    for symbol in symbols:
        match = SYMBOL.fullmatch(symbol)
        if match is None or (known is not None and symbol not in known):
            building.faults["unknown"] += 1
        else:
            kept.append((match[1], match[2]))
    model = _NO_MODEL if table is None else table.model
    found = align([name for bracket, name in kept if not bracket], words, model)
    building.faults += Counter(extra_leaves=found.count(None), missing_leaves=len(words) - len({*found} - {None}))
    for bracket, name in _place(kept, found, words, model):
        if bracket == "(":
            building.open(name)
        elif bracket == ")":
            building.close(name)
        else:
            building.leaf(name)
    return building.finish(), building.faults


def tag_punctuation(tree: Tree, table: TagTable = WSJ) -> tuple[Tree, int]:
    """Returns a model's tree with tags by which EVALB deletes and keeps words as in the gold tree; how many changed.

    Otherwise EVALB would take the sentence for another one and leave it out of the score. Do not pass the treebank's
    own trees through this: hardly any of them change, but some do.
    """
    nodes = tuple(Leaf(table.tag(*node), node.word) if isinstance(node, Leaf) else node for node in tree.nodes)
    changed = sum(new != old for new, old in zip(nodes, tree.nodes, strict=True))
    return Tree(nodes), changed


def _place(
    symbols: Sequence[tuple[str, str]], word_of: Sequence[int | None], words: Sequence[str], model: TagModel
) -> Iterator[tuple[str, str]]:
    """Yields the symbols (bracket, name) with a tag for each word but those after the last tag that has one.

    Args:
        word_of: the number of each tag's word, as `align` gives it.
    """
    passed = 0
    gap: list[tuple[str, str]] = []  # brackets since the last word
    numbers = iter(word_of)
    for bracket, name in symbols:
        if bracket:
            gap.append((bracket, name))
        elif (word := next(numbers)) is not None:
            missing = [("", model.own(word)) for word in words[passed:word]]
            at = _place_of_empty(gap)
            if at is None:
                at = len(gap) if not passed or (missing and missing[0][1] in model.first) else 0
            yield from (*gap[:at], *missing, *gap[at:], (bracket, name))
            passed, gap = word + 1, []
    at = _place_of_empty(gap)
    missing = [] if at is None else [("", model.own(word)) for word in words[passed:]]
    yield from (*gap[:at], *missing, *gap[at or len(gap) :])


def _place_of_empty(brackets: Sequence[tuple[str, str]]) -> int | None:
    """The place inside the first phrase that opens and closes with nothing between; None if there is none."""
    for at, (one, other) in enumerate(itertools.pairwise(brackets), 1):
        if one[0] == "(" and other == (")", one[1]):
            return at
    return None


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
        """Takes the tag of the next word."""
        if not self._open:
            self._roots.append(False)
        self._nodes.append(self._leaf(tag, self._words[self._used]))
        self._used += 1

    def _leaf(self, tag: str, word: str) -> Leaf:
        return Leaf(tag if tag != TAG or self._table is None else self._table.tag(tag, word), word)

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
        missing = self._words[self._used :]
        if missing:
            model = _NO_MODEL if self._table is None else self._table.model
            in_root = not self._open and self._roots == [True]
            if in_root:
                self._nodes.pop()
            self._nodes += [self._leaf(model.own(word), word) for word in missing]
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


@dataclasses.dataclass(frozen=True)
class TreeGrammar:
    """Which symbols may follow each other in a tree: the parts that they have, by id, for a search that writes trees.

    Attributes:
        tags: whether a symbol is a tag.
        opens: the number of the label, from 1, of a phrase that opens; 0: the symbol opens none.
        closes: the same of a phrase that closes.
        in_order: trees are written as in_order.py has them.
    """

    tags: list[bool]
    opens: list[int]
    closes: list[int]
    in_order: bool = False

    @classmethod
    def of(cls, symbols: Sequence[str], *, in_order: bool = False) -> TreeGrammar | None:
        """Returns the grammar of symbols, by id; None if they can write no tree.

        A bracket without its counterpart has no part in trees.
        """
        matches = [SYMBOL.fullmatch(symbol) if i > UNK else None for i, symbol in enumerate(symbols)]
        opening, closing = ({m[2] for m in matches if m and m[1] == bracket} for bracket in "()")
        labels = {label: number for number, label in enumerate(sorted(opening & closing), 1)}
        tags = [m is not None and not m[1] for m in matches]
        opens, closes = ([labels.get(m[2], 0) if m and m[1] == bracket else 0 for m in matches] for bracket in "()")
        return cls(tags, opens, closes, in_order) if labels and any(tags) else None
