"""Constituency trees in brackets: the Penn Treebank's .mrg files, or one tree a line.

A tree is kept as a flat sequence, in the order of its text from left to right. Nothing here is recursive, so no tree is
too deep for Python's stack.
"""

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from t2t_lite.errors import DataError
from t2t_lite.files import StrPath

MAX_NODES = 100_000  # of one tree; it exposes a bracket left open in a file before the tree fills the memory
# VROOT is of TIGER and NEGRA.
_ROOTS = ("", "TOP", "ROOT", "S1", "VROOT")  # labels of an outer bracket that says nothing about the sentence in it
_TRACE = "-NONE-"

_TOKEN = re.compile(r"[()]|[^() \t\r\f\v]+")  # not \s: words may hold other spaces, such as U+00A0
_LABEL = re.compile(r"[^-=|]+")  # the NP of NP-SBJ-1, NP=2; the ADVP of ADVP|PRT, which the annotators left open
_EMPTY = "an empty bracket ()"
_UNTAGGED = re.compile(r"\(([^()\s]+)\s*\(([^()\s]+)\s*\)(?:\s*\([^()\s]+\s*\))*\s*\)")  # (NP (the) (cat))
_COMMENT = ("#", "%", ";", "*", "<")  # *x* opens the lines of the Penn Treebank's own notices, <S ID=1> those of others
_BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}


class Leaf(NamedTuple):
    """A word and its part of speech."""

    tag: str
    word: str


Node = str | Leaf | None  # a phrase of this label opens; a word; the innermost open phrase closes


@dataclasses.dataclass(frozen=True, slots=True)
class Tree:
    """One sentence's tree.

    Attributes:
        nodes: the tree's text from left to right; every phrase that opens also closes.
    """

    nodes: tuple[Node, ...]

    @property
    def leaves(self) -> list[Leaf]:
        """The words with their tags, in order."""
        return [node for node in self.nodes if isinstance(node, Leaf)]

    @property
    def words(self) -> list[str]:
        """The words, as the treebank writes them (`unescape` gives plain ones)."""
        return [leaf.word for leaf in self.leaves]

    def spans(self) -> list[tuple[str, int, int]]:
        """Returns (label, first word, last word + 1) of each phrase, in the order in which they open."""
        found: list[tuple[str, int, int]] = []
        stack: list[int] = []
        position = 0
        for node in self.nodes:
            if isinstance(node, str):
                stack.append(len(found))
                found.append((node, position, position))
            elif node is None:
                label, start, _ = found[stack[-1]]
                found[stack.pop()] = (label, start, position)
            else:
                position += 1
        return found

    def __str__(self) -> str:
        """The tree on one line: (S (NP (DT the) (NN cat)) ...)."""
        return "".join(map(_text, self.nodes)).lstrip()

    def pretty(self) -> str:
        """Returns the tree on many lines: each phrase on its own line, indented two spaces more than its parent."""
        parts: list[str] = []
        depth = 0
        previous: Node = ""
        for node in self.nodes:
            below = isinstance(node, str) or (isinstance(node, Leaf) and previous is None)
            parts.append(("\n" + "  " * depth + _text(node).lstrip()) if below else _text(node))
            depth += isinstance(node, str) - (node is None)
            previous = node
        return "".join(parts).lstrip()


def _text(node: Node) -> str:
    if node is None:
        return ")"
    return f" ({node}" if isinstance(node, str) else f" ({node.tag} {node.word})"


def escape(word: str) -> str:
    """Returns a word of plain text as a tree can hold it: with "-LRB-" for "(" and "-RRB-" for ")"."""
    return word.replace("(", "-LRB-").replace(")", "-RRB-")


def unescape(word: str) -> str:
    r"""Returns a tree's word as plain text: "-LRB-" as "(", "-LCB-" as "{", "1\/2" as "1/2"."""
    return _BRACKETS.get(word) or word.replace("\\/", "/").replace("\\*", "*")


def parse(text: str) -> Tree:
    """Returns the one tree of a text.

    Raises:
        DataError: the text holds no tree, several trees or a broken one.
    """
    found = list(read_trees(text.split("\n"), "the tree"))
    if len(found) > 1:
        raise DataError(f"There should be one tree, but there are {len(found)}: {text[:80]}")
    return found[0]


def read_trees(lines: Iterable[str], name: StrPath) -> Iterator[Tree]:
    """Yields the trees of a treebank file unchanged, holding one at a time in memory.

    A tree may take many lines, indented after the first, or share one with others. Between trees, lines that start
    with one of # % ; * < are comments.

    Args:
        lines: of the file, such as `data.sources.read_lines` yields.
        name: of the file, for messages.

    Raises:
        DataError: brackets that do not match, words outside of brackets or without a tag, no tree at all; with file
            and line.
    """
    reader = _Reader(name)
    count = 0
    for number, line in enumerate(lines, start=1):
        if not reader.within and line.lstrip().startswith(_COMMENT):
            continue
        if reader.within and line.startswith("("):
            raise reader.error(number, f"a tree starts here, but the one of line {reader.start} is not closed")
        for token in _TOKEN.findall(line):
            tree = reader.read(token, number)
            if tree is not None:
                count += 1
                yield tree
    if reader.within:
        raise reader.error(reader.start, "the tree that starts here is not closed by the end of the file")
    if count > 1:
        reader.check_tags()
    if not count:
        raise DataError(f"{name} holds no trees; expected a treebank such as (S (NP (DT the) (NN cat)) ...).")


def tree_lines(lines: Sequence[str], name: StrPath) -> Sequence[str]:
    """Returns the trees of a file, one a line; only a file with trees over several lines is read.

    So a line that is no tree stays as it is where each tree has a line of its own, for EVALB to call it an error.

    Raises:
        DataError: as read_trees, for a file with trees over several lines.
    """
    opened = 0  # brackets that the line before leaves open
    for line in lines:
        if opened > 0 and line.startswith((" ", "\t", ")")):
            return list(map(str, read_trees(lines, name)))
        opened = line.count("(") - line.count(")")
    return lines


def check_words(lines: Iterable[str], name: StrPath) -> None:
    """Raises DataError if the words of a tree stand in brackets of their own, without tags: EVALB overlooks them."""
    for number, line in enumerate(lines, start=1):
        if found := _UNTAGGED.search(line):
            raise DataError(f"{name}, line {number}: {_describe_untagged(found[1], found[2])}. Correct the file.")


def _describe_untagged(parent: str, word: str) -> str:
    return (
        f"({word}) in ({parent} ...) has one word and no tag. If {word!r} is a word, write ({parent} {word}) and not "
        f"({parent} ({word})); if it is the label of an empty phrase, leave it out"
    )


class _Reader:
    """Takes the tokens of a file one by one and makes trees of them."""

    def __init__(self, name: StrPath) -> None:
        self.start = 0  # the line at which the present tree starts
        self._name = name
        self._nodes: list[Node] = []
        self._depth = 0
        self._label: str | None = None  # of the last open bracket, until it is known whether it holds a word
        self._word: str | None = None
        self._tags: Counter[str] = Counter()
        self._labels: Counter[str] = Counter()  # of phrases
        self._unary: dict[tuple[str, str], tuple[int, int, str]] = {}  # (label, tag): phrases, first line, its word

    @property
    def within(self) -> bool:
        """Whether a tree has begun and not ended."""
        return self._depth > 0 or self._label is not None

    def error(self, number: int, fault: str) -> DataError:
        return DataError(f"{self._name}, line {number}: {fault}. Correct the file, or give one that holds trees.")

    def read(self, token: str, number: int) -> Tree | None:
        """Takes one token of line `number`; returns a tree when it is complete."""
        if token == "(":
            self._open(number)
            return None
        if token != ")":
            self._take(token, number)
            return None
        if self._label == "":
            if self._nodes not in ([], [""]):
                raise self.error(number, _EMPTY)
            # () or (()) as a whole is what parsers print for a sentence that they could not parse.
            self._nodes += ["", None]
            self._label = None
        elif self._word is not None and self._label is not None:
            self._nodes.append(Leaf(self._label, self._word))
            if self._word != "0" and not self._word.startswith("*"):  # empty elements of some treebanks
                self._tags[self._label] += 1
            self._label = self._word = None
        elif self._label is not None:
            if self._depth or self._label not in _ROOTS:
                raise self.error(number, _describe_untagged(self._parent(), self._label))
            self._nodes += [self._label, None]  # (TOP) as a whole, like ()
            self._label = None
        elif self._depth:
            self._close(number)
            self._depth -= 1
        else:
            raise self.error(number, "a ) without its (")
        if self._depth:
            return None
        tree, self._nodes = Tree(tuple(self._nodes)), []
        return tree

    def check_tags(self) -> None:
        """Raises DataError if two words in a bracket were taken for a tag and a word, as in (NN (New York)).

        NN is mostly a tag of words then, and New is a tag nowhere else and, unlike most others, not in capitals.
        """
        small = sum(count for tag, count in self._tags.items() if tag != tag.upper())
        if 2 * small > self._tags.total():
            return
        for (label, tag), (count, number, word) in self._unary.items():
            if tag != tag.upper() and self._tags[tag] == count and self._tags[label] >= self._labels[label]:
                raise self.error(
                    number,
                    f"({label} ({tag} {word})): {label} is a tag of words elsewhere, and {tag!r} is one nowhere else. "
                    f"If these are two words, write ({label} {tag}_{word}), or give each a tag",
                )

    def _parent(self) -> str:
        """The label of the innermost open phrase."""
        depth = 1
        for node in reversed(self._nodes):
            depth += (node is None) - isinstance(node, str)
            if depth == 0:
                return str(node)
        return "TAG"

    def _close(self, number: int) -> None:
        label, only = self._nodes[-2:] if len(self._nodes) > 1 else (None, None)
        if isinstance(label, str) and isinstance(only, Leaf):
            count, first, word = self._unary.get((label, only.tag), (0, number, only.word))
            self._unary[label, only.tag] = count + 1, first, word
        self._nodes.append(None)

    def _open(self, number: int) -> None:
        if not self.within:
            self.start = number
        elif self._word is not None:
            raise self.error(number, f"a bracket opens after the word {self._word[:40]!r}; is a ) missing?")
        elif self._label is not None:
            if self._label == "" and self._depth:
                raise self.error(
                    number, f"a bracket without a label within the tree of line {self.start}; is a ) missing before it?"
                )
            if len(self._nodes) >= MAX_NODES:
                raise self.error(self.start, f"the tree that starts here is not closed after {MAX_NODES:,} brackets")
            self._nodes.append(self._label)
            self._labels[self._label] += 1
            self._depth += 1
        elif self._nodes == ["", "", None]:
            raise self.error(number, _EMPTY)
        self._label = ""

    def _take(self, token: str, number: int) -> None:
        if self._label is None:
            raise self.error(number, f"{token[:40]!r} stands in no bracket of its own")
        if self._label == "":
            self._label = token
        elif self._word is None:
            self._word = token
        else:
            raise self.error(
                number,
                f"several words in one bracket, ({self._label} {self._word} {token[:40]}; each word needs its own",
            )


def normalize(tree: Tree) -> Tree | None:
    """Returns a tree as parsers learn it: no traces, no empty phrases, no function tags and indices.

    Unary chains stay. An outer bracket that says nothing about the sentence in it (_ROOTS) is removed if it holds
    exactly one phrase; otherwise it is called TOP.

    Returns:
        The tree, or None if it holds no words but traces.
    """
    nodes: list[Node] = []
    for node in tree.nodes:
        if isinstance(node, str):
            label = _LABEL.match(node)
            nodes.append(label[0] if label else node)
        elif node is None and isinstance(nodes[-1], str):
            nodes.pop()
        elif node is None or node.tag != _TRACE:
            nodes.append(node)
    if not nodes:
        return None
    while nodes[0] in _ROOTS and _is_phrase(nodes[1:-1]):
        nodes = nodes[1:-1]
    if nodes[0] in _ROOTS:
        nodes[0] = "TOP"
    elif isinstance(nodes[0], Leaf):
        nodes = ["TOP", *nodes, None]
    return Tree(tuple(nodes))


def _is_phrase(nodes: list[Node]) -> bool:
    """Whether the first node opens a phrase that the last one closes."""
    depth = 0
    for number, node in enumerate(nodes):
        depth += isinstance(node, str) - (node is None)
        if depth == 0:
            return node is None and number == len(nodes) - 1
    return False
