"""Text of a problem: checks, counts and checksum of its pairs, and cleaning of training pairs."""

from __future__ import annotations

import hashlib
import logging
import operator
from collections import Counter
from collections.abc import Callable, Iterator
from typing import IO, Any

from t2t_lite.data.cleaning import Cleaner
from t2t_lite.data.encode import Pair
from t2t_lite.data.overlap import Overlap
from t2t_lite.data.text_counts import SplitCounts
from t2t_lite.errors import DataError
from t2t_lite.problem import Problem
from t2t_lite.text.line_breaks import breaks_as_spaces, plain_breaks

OnPairs = Callable[[int, str], None]  # (pairs done, what is being done)

_REPORT_EVERY = 10_000  # pairs

_MANY = 0.2  # share of the pairs above which cleaning warns
_LIMITED = ("length", "ratio")  # the reasons that --clean_max_words and --clean_max_ratio govern
_OTHERS = {
    "control": "there are control characters in them, mostly from a wrong encoding",
    "markup": "both sides are one XML element, as in a file of markup",
    "copy": "both sides are the same text",
    "duplicate": "the same pair occurred before",
}
_SPACE_MARK = "\u2581"  # SentencePiece's

_log = logging.getLogger("t2t_lite")


def read_pairs(problem: Problem, split: str, counts: SplitCounts | None = None) -> Iterator[Pair]:
    """Yields the problem's samples, checked: two texts, each of one line unless the problem keeps line breaks.

    Args:
        counts: counts the pairs, as the problem gives them.
    """
    read = plain_breaks if problem.keeps_line_breaks else breaks_as_spaces
    for number, pair in enumerate(problem.samples(split), start=1):
        if not (isinstance(pair, tuple | list) and len(pair) == 2 and all(isinstance(text, str) for text in pair)):
            raise DataError(
                f"samples({split!r}) of {problem.name!r} gave {pair!r:.200} as pair {number}; a pair is (str, str)."
            )
        try:
            pair[0].encode(), pair[1].encode()
        except UnicodeEncodeError as error:
            raise DataError(
                f"samples({split!r}) of {problem.name!r}: pair {number} holds {error.object[error.start]!r}, half of a "
                "character: no file can hold it. Read the text as UTF-8 with errors='strict'."
            ) from None
        if counts is not None:
            counts.add((pair[0], pair[1]), lambda side: problem.place(side) or f"pair {number:,}")  # noqa: B023
        yield read(pair[0]), read(pair[1])


def place_of(problem: Problem, split: str, side: int, text: str) -> str:
    """Returns where the first pair is whose source (`side` 0) or target (1) is `text`; reads the pairs again."""
    for number, pair in enumerate(read_pairs(problem, split), start=1):
        if pair[side] == text:
            return problem.place(side) or f"pair {number:,}"
    return ""


def reported(pairs: Iterator[Pair], progress: OnPairs, label: str) -> Iterator[Pair]:
    """Yields the pairs and reports now and then how many there were."""
    for number, pair in enumerate(pairs):
        if number % _REPORT_EVERY == 0:
            progress(number, label)
        yield pair


class TextChecksum:
    """SHA-256 of pairs as `read_pairs` yields them, and their number."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self.count = 0

    def add(self, pair: Pair) -> None:
        """Adds a pair."""
        self._digest.update(f"{pair[0]}\n{pair[1]}\n".encode("utf-8", "surrogatepass"))
        self.count += 1

    def hexdigest(self) -> str:
        """The checksum of all pairs so far."""
        return self._digest.hexdigest()


def text_checksum(pairs: Iterator[Pair] | list[Pair]) -> TextChecksum:
    """Returns the checksum of all these pairs."""
    checksum = TextChecksum()
    for pair in pairs:
        checksum.add(pair)
    return checksum


class TrainingText:
    """The training pairs that are used: those with text on both sides, cleaned if the problem asks for that.

    Args:
        overlap: the pairs of dev and test, which are left out; None: they stay.
    """

    def __init__(
        self, problem: Problem, verdicts: IO[bytes], progress: OnPairs, overlap: Overlap | None = None
    ) -> None:
        self._problem, self._overlap = problem, overlap
        self._overlapping = 0
        self._marked: Counter[tuple[bool, bool]] = Counter()  # pairs by whether source and target hold the mark
        self.counts = SplitCounts.of(problem)
        self._checksum = TextChecksum()
        self._cleaner: Cleaner | None = None
        if reasons := problem.cleaning:
            pairs = reported(self._with_text(), progress, "cleaning")
            languages = (problem.source_language, problem.target_language)
            limits = (problem.clean_max_words, problem.clean_max_ratio)
            self._cleaner = Cleaner(pairs, verdicts, *limits, languages, reasons)
            self._say_counts(self._cleaner)

    def read(self) -> Iterator[Pair]:
        """Yields the pairs; each call starts from the first one."""
        return self._with_text() if self._cleaner is None else self._cleaner.clean(self._with_text())

    def _say_counts(self, cleaner: Cleaner) -> None:
        counts = ", ".join(f"{count:,} {reason}" for reason, count in cleaner.counts.items() if count)
        number = sum(cleaner.counts.values())
        _log.info(
            "Cleaning leaves out %s training pairs%s.", f"{number:,}" if number else "no", counts and f": {counts}"
        )
        if number <= _MANY * cleaner.pairs:
            return
        advice = ""
        if sum(cleaner.counts.get(reason, 0) for reason in _LIMITED) > _MANY * cleaner.pairs:
            advice += (
                f" If they are sound: --clean_max_words ({self._problem.clean_max_words}) and --clean_max_ratio "
                f"({self._problem.clean_max_ratio:g}) are its limits."
            )
        largest = max(cleaner.counts, key=lambda reason: cleaner.counts[reason])
        if largest not in _LIMITED:
            advice += f" The most frequent reason is {largest}: {_OTHERS[largest]}."
        share = 100 * number / cleaner.pairs
        _log.warning("Cleaning leaves out %.0f%% of the training pairs, which is much.%s", share, advice)

    def say_marks(self, sides: tuple[bool, bool]) -> None:
        """Warns of SentencePiece's mark for a space, which is not kept; call it after all pairs have been read.

        Args:
            sides: whether the vocabularies of source and target are SentencePiece's; others keep the mark.
        """
        marked = sum(count for marks, count in self._marked.items() if any(map(operator.and_, marks, sides)))
        if marked:
            _log.warning(
                "%s training pairs hold %s (U+2581), which is SentencePiece's own mark for a space: it is read as a "
                "space, in training and in translation.",
                f"{marked:,}",
                _SPACE_MARK,
            )

    def say_overlapping(self) -> None:
        """Says how many pairs of dev and test were left out, if they were; call it after all pairs have been read."""
        if self._overlap is not None:
            what = "training pairs that are also in dev or test"
            _log.info("--drop_overlap leaves out %s %s.", f"{self._overlapping:,}", what)

    def facts(self) -> dict[str, Any]:
        """The checksum of all pairs, used or not; how many were left out, and why. Call it after all were read."""
        cleaned = {} if self._cleaner is None else {"cleaned": self._cleaner.counts}
        return {
            "dropped": self.counts.empty.number,
            **({} if self._overlap is None else {"overlapping": self._overlapping}),
            **cleaned,
            **self.counts.facts(),
            "text_sha256": self._checksum.hexdigest(),
        }

    def _with_text(self) -> Iterator[Pair]:
        self._overlapping, self._marked, self._checksum = 0, Counter(), TextChecksum()
        self.counts = SplitCounts.of(self._problem)
        for pair in read_pairs(self._problem, "train", self.counts):
            self._checksum.add(pair)
            self._marked[_SPACE_MARK in pair[0], _SPACE_MARK in pair[1]] += 1
            if not (pair[0].strip() and pair[1].strip()):
                continue
            if self._overlap is not None and pair in self._overlap:
                self._overlapping += 1
            else:
                yield pair
