"""Training text in ranges of lines, which several processes read, clean and encode at once.

The results are those of `samples.TrainingText`: the parent only adds up, in order, what the processes find.
"""

import copy
import dataclasses
import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from t2t_lite.data.cleaning import Judge, Verdicts
from t2t_lite.data.encode import (
    Pair,
    Side,
    VocabularyFiles,
    encode_chunk,
    from_files,
    in_chunks,
    in_processes,
    to_files,
)
from t2t_lite.data.line_ranges import LineRange, divide
from t2t_lite.data.overlap import Overlap, Seen
from t2t_lite.data.samples import OnPairs, TrainingFacts, join_pair, judge_of
from t2t_lite.data.text_counts import SplitCounts
from t2t_lite.data.vocabulary_files import Vocabularies
from t2t_lite.problem import VOCAB_TYPES, LineFiles, Problem, own_line_files
from t2t_lite.text.codec import Learner
from t2t_lite.text.labels import split_label
from t2t_lite.text.vocabulary_training import MAX_CHARS, MAX_LINES, draw, training_line

VOCABULARY_SEED = 1  # of the sample that the vocabulary is trained on
_FEW_RANGES = 8  # fewer are read without starting processes, which takes longer than reading them


@dataclasses.dataclass(frozen=True)
class Found:
    """What a first reading finds in a range: of its pairs with text, verdicts, and the characters to train on."""

    verdicts: np.ndarray  # uint64 [pairs]; empty without cleaning
    sizes: np.ndarray  # uint16 [pairs, 2], of source and target; 0 where there is nothing to train on


@dataclasses.dataclass(frozen=True)
class Encoded:
    """A range encoded, and what is to be added up."""

    chunks: list[tuple[Side, ...]]
    text: bytes  # of all pairs, used or not, for their checksum
    counts: SplitCounts
    seen: Seen
    overlapping: int


@dataclasses.dataclass(frozen=True)
class RangeReader:
    """Reads ranges, in whatever process.

    Attributes:
        counts: of no pairs.
        judge: None: there is no cleaning.
        drop_overlap: whether pairs of dev and test are left out.
    """

    counts: SplitCounts
    labels: Sequence[str]
    judge: Judge | None
    overlap: Overlap
    drop_overlap: bool
    files: VocabularyFiles = ()

    @functools.cached_property
    def _vocabularies(self) -> Vocabularies:
        return from_files(self.files)

    def survey(self, part: LineRange) -> Found:
        """Reads a range for the first time."""
        pairs = [pair for pair in part.read() if self._is_used(pair)]
        judge, languages = self.judge, part.files.languages
        verdicts = [] if judge is None else [judge.verdict(pair, languages) for pair in pairs]
        sizes = [[len(training_line(text)) for text in self._texts(pair)] for pair in pairs]
        return Found(np.array(verdicts, np.uint64), np.array(sizes, np.uint16).reshape(-1, 2))

    def lines(self, task: tuple[LineRange, np.ndarray]) -> bytes:
        """Returns lines to train on, by 2 x number of the pair with text + side, with line feeds between."""
        part, wanted = task
        pairs = [pair for pair in part.read() if self._is_used(pair)]
        return "\n".join(training_line(self._texts(pairs[i // 2])[i % 2]) for i in wanted.tolist()).encode()

    def encode(self, task: tuple[LineRange, np.ndarray | None]) -> Encoded:
        """Encodes the pairs of a range that are kept, bool [pairs with text]; None: all."""
        part, kept = task
        counts, text, used, overlapping = copy.deepcopy(self.counts), [], [], 0
        pairs = list(part.read())
        counts.add_lines(pairs, part.place)
        for pair in pairs:
            text.append(join_pair(pair))
            if not (pair[0].strip() and pair[1].strip()):
                continue
            if self.drop_overlap and pair in self.overlap:
                overlapping += 1
            else:
                used.append(pair)
        if kept is not None:
            used = [pair for pair, keep in zip(used, kept.tolist(), strict=True) if keep]
        for pair in used:
            self.overlap.note(pair)
        chunks = [encode_chunk(chunk, self._vocabularies) for chunk in in_chunks(used)]
        return Encoded(chunks, b"".join(text), counts, self.overlap.take_seen(), overlapping)

    def _is_used(self, pair: Pair) -> bool:
        return bool(pair[0].strip() and pair[1].strip()) and not (self.drop_overlap and pair in self.overlap)

    def _texts(self, pair: Pair) -> Pair:
        return split_label(pair[0], self.labels)[1], pair[1]


@dataclasses.dataclass(frozen=True)
class Choice:
    """Which pairs of all ranges are used.

    Attributes:
        firsts: int64 [ranges + 1]: how many pairs with text there are before each range, and in all.
        kept: bool, of all pairs with text; None: there is no cleaning.
        cleaned: how many pairs cleaning leaves out, by reason.
    """

    firsts: np.ndarray
    kept: np.ndarray | None = None
    cleaned: Mapping[str, int] | None = None

    def kept_of(self, i: int) -> np.ndarray | None:
        """Returns which pairs with text of a range are kept, bool; None: all."""
        return None if self.kept is None else self.kept[self.firsts[i] : self.firsts[i + 1]]

    def draw(self, sizes: Sequence[np.ndarray], sides: slice) -> np.ndarray:
        """Draws the lines that a vocabulary of the sides would draw among all lines.

        Args:
            sizes: by range, as of `Found`.

        Returns:
            their numbers, int64: 2 x number of the pair with text + side.
        """
        numbered = self._number_lines(sizes, sides)
        return np.array(draw(numbered, max_lines=MAX_LINES, max_chars=MAX_CHARS, seed=VOCABULARY_SEED), np.int64)

    def _number_lines(self, sizes: Sequence[np.ndarray], sides: slice) -> Iterator[tuple[int, int]]:
        """Yields the number of each line that may be drawn, and its characters."""
        for i, of_range in enumerate(sizes):
            chosen = np.zeros_like(of_range)
            chosen[:, sides] = of_range[:, sides]
            if (kept := self.kept_of(i)) is not None:
                chosen[~kept] = 0
            flat = chosen.reshape(-1)
            lines = np.flatnonzero(flat)
            yield from zip((2 * self.firsts[i] + lines).tolist(), flat[lines].tolist(), strict=True)

    def split(self, drawn: np.ndarray) -> list[np.ndarray]:
        """Returns the lines to read of each range, ascending, counted from its first one."""
        drawn = np.sort(drawn)
        parts = np.split(drawn, np.searchsorted(drawn, 2 * self.firsts[1:-1]))
        return [part - 2 * first for part, first in zip(parts, self.firsts[:-1], strict=True)]


def choose(found: Iterable[Found], reasons: Sequence[str] | None, folder: Path) -> tuple[Choice, list[np.ndarray]]:
    """Returns which pairs are used, and the `sizes` by range, of what `RangeReader.survey` found in all ranges.

    Args:
        reasons: of cleaning; None: there is none.
        folder: as of `Doubles`.
    """
    verdicts = None if reasons is None else Verdicts(reasons, folder)
    sizes = []
    for of_range in found:
        sizes.append(of_range.sizes)
        if verdicts is not None:
            verdicts.add(of_range.verdicts)
    firsts = np.cumsum([0, *map(len, sizes)])
    return Choice(firsts, *(verdicts.finish() if verdicts is not None else ())), sizes


def in_drawn_order(drawn: np.ndarray, found: Iterable[bytes]) -> Iterator[str]:
    """Yields lines as they were drawn, of what `RangeReader.lines` returned for the ranges that have some."""
    texts = [text for lines in found for text in lines.decode().split("\n")]
    places = np.empty(len(drawn), np.int64)
    places[np.argsort(drawn)] = np.arange(len(drawn))
    return (texts[place] for place in places.tolist())


def ranges_of(problem: Problem) -> list[LineRange] | None:
    """Returns the training text of a problem in ranges; None if its `samples` must be read one by one."""
    if (
        problem.aligned
        or problem.weighted
        or problem.vocab_type not in VOCAB_TYPES
        or type(problem.make_learner()) is not Learner
    ):
        return None
    files = own_line_files(problem)
    ranges = divide(files) if files else None
    if not files or not ranges:
        return None
    numbers: Counter[LineFiles] = Counter()
    for part in ranges:
        numbers[part.files] += part.lines
    problem.tell_pairs([numbers[pair] // files.count(pair) for pair in files])
    return ranges


class RangeText(TrainingFacts):
    """As `TrainingText`, of ranges.

    Args:
        num_workers: processes that read; with 1, or with few ranges, this process does everything.
        folder: as of `Doubles`.
    """

    def __init__(
        self,
        problem: Problem,
        ranges: Sequence[LineRange],
        progress: OnPairs,
        overlap: Overlap,
        num_workers: int,
        folder: Path,
    ) -> None:
        super().__init__(problem)
        self._ranges, self._progress, self._folder, self._overlap = ranges, progress, folder, overlap
        self._num_workers = num_workers if len(ranges) >= _FEW_RANGES else 1
        self._reader = RangeReader(self.counts, problem.labels, judge_of(problem), overlap, problem.drop_overlap)

    @functools.cached_property
    def _surveyed(self) -> tuple[Choice, list[np.ndarray]]:
        """What `choose` returns; all ranges are read for the first time."""
        judge = self._reader.judge
        found = self._report(self._run(self._reader, "survey", self._ranges), "cleaning" if judge else "vocabulary")
        choice, sizes = choose(found, judge.reasons if judge else None, self._folder)
        self._log_choice(choice)
        return choice, sizes

    def _log_choice(self, choice: Choice) -> None:
        if choice.cleaned is not None:
            self._log_cleaning({**choice.cleaned}, int(choice.firsts[-1]))

    def lines(self, sides: slice) -> Iterator[str]:
        """Yields the lines that a vocabulary of the sides is trained on: those that it would draw among all lines."""
        choice, sizes = self._surveyed
        drawn = choice.draw(sizes, sides)
        tasks = [task for task in zip(self._ranges, choice.split(drawn), strict=True) if len(task[1])]
        return in_drawn_order(drawn, self._run(self._reader, "lines", tasks))

    def encode(self, vocabularies: Vocabularies) -> Iterator[tuple[Side, ...]]:
        """Yields the chunks of all pairs that are used, in order."""
        self._begin()
        for part, found in zip(self._ranges, self._encoded(vocabularies), strict=True):
            self._languages.add(part.files.languages, sum(len(source.lengths) for source, *_ in found.chunks))
            self._digest.update(found.text)
            self.counts.merge(found.counts)
            self.overlapping += found.overlapping
            self._overlap.add_seen(found.seen)
            yield from found.chunks

    def _encoded(self, vocabularies: Vocabularies) -> Iterator[Encoded]:
        reader = dataclasses.replace(self._reader, files=to_files(vocabularies))
        choice = self._surveyed[0] if reader.judge else None
        kept = (choice.kept_of(i) if choice else None for i in range(len(self._ranges)))
        return self._run(reader, "encode", zip(self._ranges, kept, strict=True))

    def _report(self, found: Iterable[Found], label: str) -> Iterator[Found]:
        """Yields what is found in each range, and reports how many pairs there were."""
        done = 0
        for part, of_range in zip(self._ranges, found, strict=True):
            yield of_range
            self._progress(done, label)
            done += part.lines

    def _run(self, reader: RangeReader, method: str, tasks: Iterable[Any]) -> Iterator[Any]:
        if self._num_workers > 1:
            return in_processes(reader, method, tasks, self._num_workers)
        return map(getattr(reader, method), tasks)
