"""What is unusual in the text of a problem, counted for each split and side as it is read, and logged at the end.

Counted are white space that a vocabulary does not give back, marks of other tools (text/prepared_text.py), pairs that
are markup (text/markup.py) or have an empty side, and, where the text is encoded, unknown pieces
(text/unknown_pieces.py).
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import logging
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from t2t_lite.data.store import SIDES
from t2t_lite.data.vocabulary_files import Vocabularies
from t2t_lite.problem import KEEP_WHOLE_FLAG, Problem
from t2t_lite.text.any_vocabulary import WORD_START, AnyVocabulary
from t2t_lite.text.labels import split_label
from t2t_lite.text.markup import is_element
from t2t_lite.text.prepared_text import PreparedText, prepared_warnings
from t2t_lite.text.unknown_pieces import UnknownPieces
from t2t_lite.text.vocabulary import Vocabulary

Pair = tuple[str, str]

_AROUND = 12  # characters before and after, in an example

_log = logging.getLogger("t2t_lite")


@dataclasses.dataclass(frozen=True)
class WhiteSpace:
    """A kind of white space that a vocabulary may not give back."""

    name: str  # in the plural
    has: Callable[[str], bool]  # quick, as it is asked of each text
    place: re.Pattern[str]
    signs: tuple[str, ...]  # one of them is in lines with line breaks around them if a line has it

    def in_lines(self, text: str) -> bool:
        """Whether one of the lines of a text has it; a line break is at the text's beginning and end."""
        return any(sign in text for sign in self.signs)

    def example(self, text: str) -> str:
        """Returns what is around the first place in a text that has it."""
        found = self.place.search(text)
        start, end = found.span() if found else (0, 0)
        return text[max(start - _AROUND, 0) : end + _AROUND]

    def lost(self, example: str, vocabulary: AnyVocabulary) -> str | None:
        """Returns what a vocabulary makes of an example; None if it keeps this white space."""
        back = vocabulary.decode(vocabulary.encode(vocabulary.line(example)))
        return None if self.has(back) else back


WHITE_SPACE = (
    WhiteSpace("Line breaks", lambda text: "\n" in text, re.compile("\n+"), ()),
    WhiteSpace("Runs of spaces", lambda text: "  " in text, re.compile("  +"), ("  ",)),
    WhiteSpace(
        "Spaces at the beginning or end",
        lambda text: text[:1] == " " or text[-1:] == " ",
        re.compile(r"\A +| +\Z"),
        ("\n ", " \n"),
    ),
    WhiteSpace("Tabs", lambda text: "\t" in text, re.compile("\t+"), ("\t",)),
    WhiteSpace(
        "SentencePiece's marks for a space", lambda text: WORD_START in text, re.compile(WORD_START), (WORD_START,)
    ),
)


@dataclasses.dataclass
class Count:
    """How many texts have something; the first example, and where it is."""

    number: int = 0
    example: str = ""
    place: str = ""

    def add(self, example: Callable[[], str], place: Callable[[], str]) -> None:
        if not self.number:
            self.example, self.place = example(), place()
        self.number += 1

    def merge(self, other: Count) -> None:
        """Adds the count of texts that follow."""
        if not self.number:
            self.example, self.place = other.example, other.place
        self.number += other.number


def counts_of(problem: Problem) -> SplitCounts:
    """Returns the counts of a split of a problem, none counted yet."""
    return SplitCounts(problem.codec.is_text, problem.keep_whole, problem.labels)


class SplitCounts:
    """Counts of one split of a problem.

    Args:
        is_text: whether the targets are text, and not the linearised trees of a parser.
        keep_whole, labels: as in Problem.

    Attributes:
        absent: texts of --keep_whole that have not occurred.
        unknown: the unknown pieces of each side, set when they are known.
    """

    def __init__(self, is_text: bool, keep_whole: Sequence[str], labels: Sequence[str]) -> None:
        self._sides = (0, 1) if is_text else (0,)
        self.absent = dict.fromkeys(keep_whole)
        self._labels = labels
        self.unknown: Sequence[UnknownPieces] = ()
        self.pairs = 0
        self.white_space: dict[tuple[int, str], Count] = defaultdict(Count)  # by side and name
        self.prepared = [PreparedText() for _ in SIDES]
        self.markup, self.empty = Count(), Count()

    def add(self, pair: Pair, place: Callable[[int], str]) -> None:
        """Counts a pair, without the label of its source; `place` says where a side of it is."""
        self.pairs += 1
        pair = split_label(pair[0], self._labels)[1], pair[1]
        for text in [text for text in self.absent if text in pair[0] or text in pair[1]]:
            del self.absent[text]
        for side in self._sides:
            text = pair[side]
            self.prepared[side].add(text)
            for kind in WHITE_SPACE:
                if kind.has(text):
                    self.white_space[side, kind.name].add(lambda: kind.example(text), lambda: place(side))  # noqa: B023
        if is_element(pair[0]) and is_element(pair[1]):
            self.markup.add(lambda: pair[0], lambda: place(0))
        empty = [side for side in (0, 1) if not pair[side].strip()]
        if empty:
            self.empty.add(str, lambda: place(empty[0]))

    def add_lines(self, pairs: Sequence[Pair], place: Callable[[int, int], str]) -> None:
        """Counts pairs without line breaks, as `add` does; quicker, as most kinds are in none of them.

        Args:
            place: says where a side of the pair with an index is.
        """
        self.pairs += len(pairs)
        pairs = [(split_label(source, self._labels)[1], target) for source, target in pairs]
        sides = [[pair[side] for pair in pairs] for side in (0, 1)]
        texts = ["\n".join(["", *lines, ""]) for lines in sides]
        self.absent = {text: None for text in self.absent if not any(text in joined for joined in texts)}
        for side in self._sides:
            self.prepared[side].add_lines(sides[side])
            for kind in WHITE_SPACE:
                if kind.in_lines(texts[side]):
                    for i, line in enumerate(sides[side]):
                        if kind.has(line):
                            self.white_space[side, kind.name].add(
                                functools.partial(kind.example, line), functools.partial(place, side, i)
                            )
        if all("<" in text for text in texts):
            for i, (source, target) in enumerate(pairs):
                if is_element(source) and is_element(target):
                    self.markup.add(functools.partial(str, source), functools.partial(place, 0, i))
        for i, pair in enumerate(pairs):
            empty = [side for side in (0, 1) if not pair[side].strip()]
            if empty:
                self.empty.add(str, functools.partial(place, empty[0], i))

    def merge(self, other: SplitCounts) -> None:
        """Adds the counts of the pairs that follow."""
        self.pairs += other.pairs
        self.absent = {text: None for text in self.absent if text in other.absent}
        for key, count in other.white_space.items():
            self.white_space[key].merge(count)
        for mine, others in zip(self.prepared, other.prepared, strict=True):
            mine.merge(others)
        self.markup.merge(other.markup)
        self.empty.merge(other.empty)

    def to_json(self) -> dict[str, Any]:
        """The counts of the text, JSON-ready; `from_json` reads them."""
        return {
            "pairs": self.pairs,
            "absent": list(self.absent),
            "white_space": [[*key, dataclasses.astuple(count)] for key, count in self.white_space.items()],
            "prepared": [text.to_json() for text in self.prepared],
            "markup": dataclasses.astuple(self.markup),
            "empty": dataclasses.astuple(self.empty),
        }

    def from_json(self, values: Mapping[str, Any]) -> SplitCounts:
        """Returns counts as these, of another text."""
        found = copy.copy(self)
        found.pairs, found.absent = values["pairs"], dict.fromkeys(values["absent"])
        found.white_space = defaultdict(Count)
        found.white_space |= {(side, name): Count(*count) for side, name, count in values["white_space"]}
        found.prepared = [PreparedText.from_json(text) for text in values["prepared"]]
        found.markup, found.empty = Count(*values["markup"]), Count(*values["empty"])
        return found

    def facts(self) -> dict[str, Any]:
        """The counts that are not zero, for the manifest."""
        found: dict[str, Any] = {"markup": self.markup.number} if self.markup.number else {}
        for (side, name), count in sorted(self.white_space.items()):
            found.setdefault(SIDES[side], {})[name.lower()] = count.number
        return {"unusual": found} if found else {}


def log_counts(
    splits: dict[str, SplitCounts],
    vocabularies: Vocabularies,
    cleaned: bool,
    place: Callable[[str, int, str], str],
) -> None:
    """Logs a line for each kind that is not zero.

    Args:
        vocabularies: of source and target; they decide which white space is lost.
        cleaned: whether cleaning leaves the markup out of the training data.
        place: returns where a text of a split and a side is.
    """
    advice: dict[str, None] = {}
    for name, counts in splits.items():
        for side, unknown in enumerate(counts.unknown):
            if unknown.unknown:
                _log.warning("%s: %s", name, unknown.sentence(SIDES[side], place(name, side, unknown.first)))
                advice[unknown.advice(vocabularies[side])] = None
    for text in filter(None, advice):
        _log.warning("%s", text)
    if absent := list(splits["train"].absent):
        _log.warning("%s: no training pair holds %s.", KEEP_WHOLE_FLAG, ", ".join(map(repr, absent)))
    for kind in WHITE_SPACE:
        if line := _describe_white_space(kind, splits, vocabularies):
            _log.info("%s", line)
    for name, counts in splits.items():
        # A vocabulary of another toolkit may be one of pieces that another tool has cut.
        texts = {
            f"the {side}s of {name}": text
            for side, text, vocabulary in zip(SIDES, counts.prepared, vocabularies, strict=True)
            if isinstance(vocabulary, Vocabulary)
        }
        for warning in prepared_warnings(texts):
            _log.warning("%s", warning)
        if counts.empty.number:
            what = "left out" if name == "train" else "kept: an empty text has an empty translation"
            number = f"{counts.empty.number:,} of {counts.pairs:,}"
            _log.info(
                "%s pairs of %s have an empty side (first: %s). They are %s.", number, name, counts.empty.place, what
            )
        if counts.markup.number and not (cleaned and name == "train"):
            _log.warning("%s", _describe_markup(name, counts))


def _describe_white_space(kind: WhiteSpace, splits: dict[str, SplitCounts], vocabularies: Vocabularies) -> str:
    """Returns what is lost of a kind of white space; "" if nothing is."""
    found, shown = [], ""
    for split, counts in splits.items():
        for side, vocabulary in enumerate(vocabularies):
            count = counts.white_space.get((side, kind.name))
            back = count and kind.lost(count.example, vocabulary)
            if count and back is not None:
                shown = shown or f"{count.example!r} is read, and written, as {back!r}"
                found.append(f"{count.number:,} of {counts.pairs:,} {SIDES[side]}s of {split} (first: {count.place})")
    return f"{kind.name} are not kept: {shown}. They are in {', '.join(found)}." if found else ""


def _describe_markup(split: str, counts: SplitCounts) -> str:
    number, example, place = counts.markup.number, counts.markup.example[:80], counts.markup.place
    advice = "--clean=markup leaves them out" if split == "train" else "Take these lines out of the files"
    return (
        f"{number:,} of {counts.pairs:,} pairs of {split} ({number / counts.pairs:.1%}) are one XML element on both "
        f"sides, and not sentences, such as {example!r} ({place}). {advice}."
    )
