"""Labelled bracketing (Black et al., HLT 1991) by the rules of EVALB (Sekine and Collins, 1997), without a subprocess.

A tree is one line of text, and is read in one pass without becoming an object. A line is cut at its closing brackets.
The text before the word in each piece, such as " (NP (DT", recurs so often that its meaning is kept and looked up.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from t2t_lite.errors import DataError
from t2t_lite.metrics.evalb_parameters import Parameters
from t2t_lite.metrics.evalb_report import Evaluation, SentenceScore, Status, TreeScore, f1
from t2t_lite.metrics.score import CorpusMetric

# To EVALB only ASCII spaces are spaces; words may hold others, such as U+00A0.
_FIELD = re.compile(r"[^ \t\n\r\f\v]+")
_PART = re.compile(r"[()]|[^()]+")
_TERMINAL = re.compile(r"\(([^ ()]+) ([^ ()]+)$")
_FUNCTION = re.compile(r"[-=]")  # what follows in NP-SBJ-1 or NP=2 says nothing about the kind of the phrase
_QUOTES = ("'", '"', "/")  # words that EVALB takes for quotation marks; the last one is in its source as well
_UNLABELLED = "()"  # what stands for an empty label that counts
_KEEP = "\0"  # before the tag of a word that is not to be left out

# The meaning of the text before a word: (labels of the phrases that open, "" for one that does not count; the word's
# tag, "" if the word is left out; what is added to the sentence's length besides the words that are not left out).
_Head = tuple[tuple[str, ...], str, int]


class _MalformedError(ValueError):
    """Error that says why a line is not a tree."""


class _Read(NamedTuple):
    """A line without what the parameters leave out."""

    length: int
    words: list[str]
    tags: list[str]
    brackets: list[tuple[int, int, str]]  # (first word, last word + 1, label), in the order in which they close


class Scorer:
    """Compares trees, line by line.

    Args:
        parameters: what to leave out, and what counts as equal.
    """

    def __init__(self, parameters: Parameters | None = None) -> None:
        self.parameters = parameters or Parameters()
        self._heads = _Heads(self.parameters)
        self._word_class = _classes(self.parameters.eq_word)

    def score(self, gold: str, test: str) -> SentenceScore:
        """Returns the counts of one sentence: the brackets of `test` against those of `gold`.

        Either line may hold several trees side by side. An unlabelled bracket around a tree is not a phrase unless the
        parameters say so; to EVALB it is a phrase with an empty label. A sentence is in error if either line is not a
        tree, or if the words that are left differ. It is skipped if no words are left in `test`.
        """
        length, side = 0, "gold"
        try:
            right = self._read(gold)
            length, side = right.length, "test"
            found = right if test == gold else self._read(test)
            if found.words and len(right.words) != len(found.words):
                pieces = self._put_quotes_back(_regular(gold), _regular(test))
                side = "gold"
                right = self._read_pieces(pieces[0])
                side = "test"
                found = self._read_pieces(pieces[1])
        except _MalformedError as fault:
            return SentenceScore(length, Status.ERROR, fault=f"{fault}, {side} tree")
        if not found.words:
            return SentenceScore(length, Status.SKIP)
        words = tags = len(right.words)
        if words != len(found.words):
            return SentenceScore(length, Status.ERROR, fault=f"Length unmatch ({words}|{len(found.words)})")
        if right.words != found.words:
            differ = next(pair for pair in zip(right.words, found.words, strict=True) if pair[0] != pair[1])
            return SentenceScore(length, Status.ERROR, fault=f"Words unmatch ({differ[0]}|{differ[1]})")
        if right.tags != found.tags:
            tags = sum(map(str.__eq__, right.tags, found.tags))
        matched, crossing = _compare(right.brackets, found.brackets, words)
        return SentenceScore(
            length, Status.VALID, matched, len(right.brackets), len(found.brackets), crossing, words, tags
        )

    def _read(self, line: str) -> _Read:
        if "\t" not in line and "\r" not in line and "\f" not in line and "\v" not in line and "\n" not in line:
            try:
                return self._read_pieces(line.split(")"))
            except _MalformedError:
                pass  # the line may only be written irregularly
        return self._read_pieces(_regular(line))

    def _read_pieces(self, pieces: list[str]) -> _Read:
        words: list[str] = []
        tags: list[str] = []
        brackets: list[tuple[int, int, str]] = []
        stack: list[tuple[str, int]] = []
        known, learn = self._heads.known.get, self._heads.learn
        position = others = 0
        try:
            for piece in pieces[:-1]:
                if piece:
                    head, _, word = piece.rpartition(" ")
                    entry = known(head) or learn(head)
                    if entry:
                        labels, tag, extra = entry
                        for label in labels:
                            stack.append((label, position))
                        if tag:
                            words.append(word)
                            tags.append(tag)
                            position += 1
                        if extra:
                            others += extra
                        continue
                    if word:
                        raise _MalformedError(f"Reading sentence: {word[:40]!r} stands in no bracket of its own")
                label, start = stack.pop()
                if label and start < position:
                    brackets.append((start, position, label))
        except IndexError:
            raise _MalformedError("Bracketing unbalance (too many close bracket)") from None
        rest = pieces[-1].strip(" ")
        if stack or "(" in rest or "(" in "".join(words) or "" in words:
            raise _MalformedError("Bracketing is unbalanced (too many open bracket)")
        if rest:
            raise _MalformedError(f"Reading sentence: {rest[:40]!r} stands in no bracket of its own")
        if self._word_class:
            words = [self._word_class.get(word, word) for word in words]
        return _Read(position + others, words, tags, brackets)

    def _put_quotes_back(self, gold: list[str], test: list[str]) -> tuple[list[str], list[str]]:
        """Marks, in either tree, quotation marks that are left out there but not in the other; returns both trees.

        The method and the order are EVALB's, since a mark that is put back shifts those after it.
        """
        delete = self.parameters.delete_label
        marks, others = self._quotes(gold), self._quotes(test)
        for i, (index, tag, _) in enumerate(others):
            for j, (other_index, other_tag, _) in enumerate(marks):
                if index != other_index or (tag in delete) == (other_tag in delete):
                    continue
                pieces, listed, first = (gold, marks, j) if other_tag in delete else (test, others, i)
                place = listed[first][2]
                before, _, mark = pieces[place].rpartition("(")
                pieces[place] = f"{before}({_KEEP}{mark}"
                for k in range(first, len(listed)):
                    listed[k] = (listed[k][0] + 1, *listed[k][1:])
        return gold, test

    def _quotes(self, pieces: list[str]) -> list[tuple[int, str, int]]:
        """Returns (number of words before that are not left out, tag, piece) of each quotation mark."""
        found = []
        index = 0
        for place, piece in enumerate(pieces):
            match = _TERMINAL.search(piece)
            if match is not None:
                if match[1] in self.parameters.quote_label and match[2] in _QUOTES:
                    found.append((index, match[1], place))
                index += match[1] not in self.parameters.delete_label
        return found


class _Heads:
    """The meanings of heads, which are the parts of pieces before the words.

    Attributes:
        known: the meanings of the heads that have occurred.
    """

    def __init__(self, parameters: Parameters) -> None:
        self.known: dict[str, _Head] = {}
        self._delete = frozenset(parameters.delete_label)
        self._no_length = frozenset(parameters.delete_label_for_length)
        self._labeled = parameters.labeled
        self._empty = _UNLABELLED if parameters.unlabelled else ""
        self._label_class = _classes(parameters.eq_label)
        self._left_out = {self._label_class.get(label, label) for label in self._delete} | {""}

    def learn(self, head: str) -> _Head | None:
        """Returns what a new head means, and remembers it; None where it is blank."""
        before, *brackets = head.split("(")
        if before.strip(" "):
            raise _MalformedError(f"Reading sentence: {before.strip(' ')[:40]!r} stands in no bracket of its own")
        if not brackets:
            return None
        fields = list(map(_FIELD.findall, brackets))
        if any(len(found) > 1 for found in fields):
            raise _MalformedError("More than two elements in a bracket")
        if not fields[-1]:
            raise _MalformedError("A word without a tag")
        *opening, tag = [found[0] if found else "" for found in fields]
        kept, counted = tag not in self._delete, tag not in self._no_length
        tag = tag.removeprefix(_KEEP)
        labels = tuple(map(self._label, opening))
        self.known[head] = meaning = (labels, self._label_class.get(tag, tag) if kept else "", counted - kept)
        return meaning

    def _label(self, label: str) -> str:
        label = _FUNCTION.split(label, maxsplit=1)[0]
        label = self._label_class.get(label, label) or self._empty
        if label in self._left_out:
            return ""
        return label if self._labeled else "X"


def _regular(line: str) -> list[str]:
    """Returns the pieces of a line in the usual form: single spaces, none before ")", no empty brackets."""
    kept: list[str] = []
    places: list[int] = []  # of the open brackets, in `kept`
    held = [0]  # number of spaces and brackets outside of all brackets, then in each open bracket
    for part in _PART.findall(" ".join(_FIELD.findall(line)).replace(" )", ")")):
        if part == "(":
            places.append(len(kept))
            held.append(0)
        elif part != ")":
            held[-1] += part.count(" ")
        elif places:
            place = places.pop()
            if held.pop() == 0:  # an empty bracket is removed, with a space before it
                del kept[place:]
                if kept and kept[-1].endswith(" "):
                    kept[-1] = kept[-1][:-1]
                    held[-1] -= 1
                continue
            held[-1] += 1
        kept.append(part)
    return "".join(kept).split(")")


def _classes(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Returns, for each label in `pairs`, the label that stands for all labels equal to it."""
    found: dict[str, str] = {}
    for one, other in pairs:
        old, new = found.setdefault(one, one), found.setdefault(other, other)
        found.update({label: new for label, same in found.items() if same == old})
    return found


def _compare(
    gold: Sequence[tuple[int, int, str]], test: Sequence[tuple[int, int, str]], length: int
) -> tuple[int, int]:
    """Returns how many brackets match, and how many of `test` cross one of `gold`."""
    right, found = set(gold), set(test)
    wrong = found - right
    if len(right) == len(gold) or len(found) == len(test):
        matched = len(found) - len(wrong)
    else:  # the same label over the same words several times, in both
        matched = (Counter(gold) & Counter(test)).total()
    if not wrong:
        return matched, 0
    # Of the gold brackets that start (or end) at the same place, the largest one closes last.
    end_of, start_of = list(range(length + 1)), list(range(length + 1))
    for start, end, _ in gold:
        end_of[start] = end
        start_of[end] = start
    crossing = 0
    for bracket in wrong if len(found) == len(test) else [bracket for bracket in test if bracket in wrong]:
        start, end, _ = bracket
        if end - start > 1:
            inner = slice(start + 1, end)
            crossing += max(end_of[inner]) > end or min(start_of[inner]) < start
    return matched, crossing


class Bracketing(CorpusMetric):
    """Labelled F1 as a metric like BLEU; without `parameters`, those of COLLINS.prm and new.prm's QUOTE_LABEL apply."""

    def __init__(self, parameters: Parameters | None = None) -> None:
        self.parameters = parameters or Parameters()
        self.kind, self.signature = "f1", self.parameters.signature

    def score(self, hypotheses: Sequence[str], references: Sequence[str], sources: Sequence[str] = ()) -> TreeScore:
        """Returns the F1 of tree N of the hypotheses against tree N of the references; errors as in `evaluate`."""
        return evaluate(references, hypotheses, self.parameters).score()

    def from_counts(self, counts: Any) -> float:
        """Returns F1 from the sums of matched, gold and test brackets."""
        matched, gold, test = (float(count) for count in counts)
        return f1(matched, gold, test)


def evaluate(gold: Sequence[str], test: Sequence[str], parameters: Parameters | None = None) -> Evaluation:
    """Returns the counts of line N of `test` against line N of `gold`, for each N, and their sums.

    Args:
        gold, test: trees, one a line.
        parameters: None for those of COLLINS.prm and new.prm's QUOTE_LABEL.

    Raises:
        DataError: no lines, or unequal counts.
    """
    if len(gold) != len(test):
        raise DataError(
            f"There are {len(test):,} trees to score but {len(gold):,} gold trees; "
            "line N of one is scored against line N of the other."
        )
    if not gold:
        raise DataError("There is nothing to score: no trees.")
    scorer = Scorer(parameters)
    return Evaluation(scorer.parameters, [scorer.score(*pair) for pair in zip(gold, test, strict=True)])
