"""Text of a problem: checks, counts and checksum of its pairs; cleaning of training pairs."""

import hashlib
import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from t2t_lite.data.cleaning import Cleaner, Judge
from t2t_lite.data.encode import Pair
from t2t_lite.data.language_runs import LanguageRuns
from t2t_lite.data.overlap import Overlap
from t2t_lite.data.text_counts import SplitCounts, counts_of
from t2t_lite.errors import DataError
from t2t_lite.problem import LARGEST_WEIGHT, AlignedPair, Problem, WeightedPair
from t2t_lite.text.labels import split_label
from t2t_lite.text.line_breaks import breaks_as_spaces, plain_breaks
from t2t_lite.text.vocabulary import Vocabulary
from t2t_lite.text.vocabulary_training import train_vocabulary

OnPairs = Callable[[int, str], None]  # (pairs done, what is being done)

_REPORT_EVERY = 10_000  # pairs

_MANY = 0.2  # share of the pairs above which cleaning warns

_log = logging.getLogger("t2t_lite")


def read_pairs(problem: Problem, split: str, counts: SplitCounts | None = None) -> Iterator[Pair]:
    """Yields the problem's samples, checked: two texts, each of one line unless the problem keeps line breaks.

    Args:
        counts: counts the pairs, as the problem gives them.
    """
    read = plain_breaks if problem.keeps_line_breaks else breaks_as_spaces
    if not isinstance(pairs := problem.samples(split), Iterable):
        raise DataError(f"samples({split!r}) of {problem.name!r} gave {pairs!r:.200}; it yields pairs (str, str).")
    for number, pair in enumerate(pairs, start=1):
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
        texts = read(pair[0]), read(pair[1])
        if split != "train" or not (problem.aligned or problem.weighted):
            yield texts
        elif problem.aligned and isinstance(pair, AlignedPair):
            yield AlignedPair(*texts, pair.links)
        elif problem.weighted and isinstance(pair, WeightedPair):
            if not 0 <= pair.weight <= LARGEST_WEIGHT:
                raise DataError(
                    f"samples({split!r}) of {problem.name!r} gave pair {number} the weight {pair.weight!r}; expected a "
                    f"number from 0 to {LARGEST_WEIGHT:,.0f}."
                )
            yield WeightedPair(*texts, pair.weight)
        else:
            lacking = ("an alignment", "aligned", "AlignedPair(source, target, links)")
            if problem.weighted:
                lacking = ("a weight", "weighted", "WeightedPair(source, target, weight)")
            raise DataError(
                f"samples({split!r}) of {problem.name!r} gave pair {number} without {lacking[0]}, though the problem "
                f"is `{lacking[1]}`. Give t2t_lite.problem.{lacking[2]}."
            )


def find_place(problem: Problem, split: str, side: int, text: str) -> str:
    """Returns where the first pair is whose source (`side` 0) or target (1) is `text`; reads the pairs again."""
    for number, pair in enumerate(read_pairs(problem, split), start=1):
        if pair[side] == text:
            return problem.place(side) or f"pair {number:,}"
    return ""


def report(pairs: Iterator[Pair], progress: OnPairs, label: str) -> Iterator[Pair]:
    """Yields the pairs and reports now and then how many there were."""
    for number, pair in enumerate(pairs):
        if number % _REPORT_EVERY == 0:
            progress(number, label)
        yield pair


def hash_text(pairs: Iterable[Pair]) -> str:
    """SHA-256 of pairs as `read_pairs` yields them."""
    digest = hashlib.sha256()
    for pair in pairs:
        digest.update(join_pair(pair))
    return digest.hexdigest()


def join_pair(pair: Pair) -> bytes:
    weight = f"{pair.weight!r}\n" if isinstance(pair, WeightedPair) else ""
    return f"{pair[0]}\n{pair[1]}\n{weight}".encode()


class VocabularyRecipe(NamedTuple):
    """How a vocabulary is trained: on the lines of which sides, and by which arguments of `train_vocabulary`."""

    sides: slice
    options: Mapping[str, Any]


class TrainingFacts:
    """The training pairs that are used, and what is known of them once all were read.

    Attributes:
        counts: what is unusual in all pairs, used or not.
        overlapping: how many pairs are left out as they are also in dev or test.
        cleaned: how many pairs cleaning leaves out, by reason; None: there is no cleaning.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self.cleaned: dict[str, int] | None = None
        self._begin()

    def _begin(self) -> None:
        """Begins to read all pairs."""
        self.counts, self.overlapping, self._digest = counts_of(self._problem), 0, hashlib.sha256()
        self._languages = LanguageRuns()  # of the pairs that are used

    def lines(self, sides: slice) -> Iterator[str]:
        """Yields the lines that a vocabulary of the sides is trained on."""
        raise NotImplementedError

    def train(self, recipes: Sequence[VocabularyRecipe]) -> list[Vocabulary]:
        """Returns the vocabularies that are trained on this text."""
        return [train_vocabulary(self.lines(sides), **options) for sides, options in recipes]

    def facts(self) -> dict[str, Any]:
        """The checksum of all pairs, used or not; how many were left out, and why; the languages of the others."""
        return {
            "dropped": self.counts.empty.number,
            **({"overlapping": self.overlapping} if self._problem.drop_overlap else {}),
            **({} if self.cleaned is None else {"cleaned": self.cleaned}),
            **self.counts.facts(),
            **self._languages.facts(),
            "text_sha256": self._digest.hexdigest(),
        }

    def _log_cleaning(self, counts: dict[str, int], pairs: int) -> None:
        self.cleaned, number = counts, sum(counts.values())
        named = ", ".join(f"{count:,} {reason}" for reason, count in counts.items() if count)
        _log.info("Cleaning leaves out %s training pairs%s.", f"{number:,}" if number else "no", named and f": {named}")
        if number > _MANY * pairs:
            _log.warning(
                "Cleaning leaves out %.0f%% of the training pairs, which is much. If they are sound, name the other "
                "reasons (--clean=REASON,...), or raise --clean_max_words (%s) and --clean_max_ratio (%g).",
                100 * number / pairs,
                self._problem.clean_max_words,
                self._problem.clean_max_ratio,
            )


def judge_of(problem: Problem) -> Judge | None:
    """Returns what judges the training pairs of a problem; None: there is no cleaning."""
    if not (reasons := problem.cleaning):
        return None
    return Judge(problem.clean_max_words, problem.clean_max_ratio, reasons, problem.labels)


class TrainingText(TrainingFacts):
    """The training pairs that are used: those with text on both sides, cleaned if the problem asks for that.

    Args:
        overlap: the pairs of dev and test, which are left out if the problem asks for that.
        folder: as of `Doubles`.
    """

    def __init__(self, problem: Problem, progress: OnPairs, overlap: Overlap, folder: Path) -> None:
        super().__init__(problem)
        self._overlap = overlap if problem.drop_overlap else None
        self._progress = progress
        self._cleaner: Cleaner | None = None
        if judge := judge_of(problem):
            pairs = report(self._with_text(), progress, "cleaning")
            self._cleaner = Cleaner(pairs, judge, problem.pair_languages, folder)
            self._log_cleaning(self._cleaner.counts, self._cleaner.pairs)

    def read(self) -> Iterator[Pair]:
        """Yields the pairs; each call starts from the first one."""
        for pair in self._with_text() if self._cleaner is None else self._cleaner.clean(self._with_text()):
            self._languages.add(self._problem.pair_languages())
            yield pair

    def lines(self, sides: slice) -> Iterator[str]:
        pairs = report(self.read(), self._progress, "vocabulary")
        texts = ((split_label(source, self._problem.labels)[1], target) for source, target in pairs)
        return itertools.chain.from_iterable(pair[sides] for pair in texts)

    def _with_text(self) -> Iterator[Pair]:
        self._begin()
        for pair in read_pairs(self._problem, "train", self.counts):
            self._digest.update(join_pair(pair))
            if not (pair[0].strip() and pair[1].strip()):
                continue
            if self._overlap is not None and pair in self._overlap:
                self.overlapping += 1
            else:
                yield pair
