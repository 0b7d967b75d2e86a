"""Training text in ranges of lines, which several processes read, clean and encode at once.

The results are those of `samples.TrainingText`: the parent only adds up, in order, what the processes find.
"""

import copy
import dataclasses
import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
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
class _Found:
    """What a first reading finds in a range: of its pairs with text, verdicts, and the characters to train on."""

    verdicts: np.ndarray  # uint64 [pairs]; empty without cleaning
    sizes: np.ndarray  # uint16 [pairs, 2], of source and target; 0 where there is nothing to train on


@dataclasses.dataclass(frozen=True)
class _Encoded:
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

    def survey(self, part: LineRange) -> _Found:
        """Reads a range for the first time."""
        pairs = [pair for pair in part.read() if self._is_used(pair)]
        judge, languages = self.judge, part.files.languages
        verdicts = [] if judge is None else [judge.verdict(pair, languages) for pair in pairs]
        sizes = [[len(training_line(text)) for text in self._texts(pair)] for pair in pairs]
        return _Found(np.array(verdicts, np.uint64), np.array(sizes, np.uint16).reshape(-1, 2))

    def lines(self, task: tuple[LineRange, np.ndarray]) -> bytes:
        """Returns lines to train on, by 2 x number of the pair with text + side, with line feeds between."""
        part, wanted = task
        pairs = [pair for pair in part.read() if self._is_used(pair)]
        return "\n".join(training_line(self._texts(pairs[i // 2])[i % 2]) for i in wanted.tolist()).encode()

    def encode(self, task: tuple[LineRange, np.ndarray | None]) -> _Encoded:
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
        return _Encoded(chunks, b"".join(text), counts, self.overlap.take_seen(), overlapping)

    def _is_used(self, pair: Pair) -> bool:
        return bool(pair[0].strip() and pair[1].strip()) and not (self.drop_overlap and pair in self.overlap)

    def _texts(self, pair: Pair) -> Pair:
        return split_label(pair[0], self.labels)[1], pair[1]


def range_text(
    problem: Problem, progress: OnPairs, overlap: Overlap, num_workers: int, folder: Path
) -> "RangeText | None":
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
    return RangeText(problem, ranges, progress, overlap, num_workers, folder)


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
        judge = judge_of(problem)
        self._reader = RangeReader(self.counts, problem.labels, judge, overlap, problem.drop_overlap)
        self._kept: list[np.ndarray] | None = None  # by range, of the pairs with text; None: all
        self._sizes: list[np.ndarray] | None = None  # by range, as of _Found
        if judge is not None:
            self._survey("cleaning", judge)

    def lines(self, sides: slice) -> Iterator[str]:
        """Yields the lines that a vocabulary of the sides is trained on: those that it would draw among all lines."""
        if self._sizes is None:
            self._survey("vocabulary")
        numbered = self._number_lines(sides)
        drawn = np.array(draw(numbered, max_lines=MAX_LINES, max_chars=MAX_CHARS, seed=VOCABULARY_SEED), np.int64)
        order = np.argsort(drawn)
        ends = np.searchsorted(drawn[order], self._firsts[1:])
        parts = np.split(drawn[order], ends[:-1])
        tasks = [
            (part, wanted - first)
            for part, wanted, first in zip(self._ranges, parts, self._firsts[:-1], strict=True)
            if len(wanted)
        ]
        texts = [text for found in self._run(self._reader, "lines", tasks) for text in found.decode().split("\n")]
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        return (texts[place] for place in places.tolist())

    def encode(self, vocabularies: Vocabularies) -> Iterator[tuple[Side, ...]]:
        """Yields the chunks of all pairs that are used, in order."""
        reader = dataclasses.replace(self._reader, files=to_files(vocabularies))
        kept = self._kept if self._kept is not None else [None] * len(self._ranges)
        self._begin()
        found: _Encoded
        of_ranges = self._run(reader, "encode", zip(self._ranges, kept, strict=True))
        for part, found in zip(self._ranges, of_ranges, strict=True):
            self._languages.add(part.files.languages, sum(len(source.lengths) for source, *_ in found.chunks))
            self._digest.update(found.text)
            self.counts.merge(found.counts)
            self.overlapping += found.overlapping
            self._overlap.add_seen(found.seen)
            yield from found.chunks

    def _survey(self, label: str, judge: Judge | None = None) -> None:
        """Reads all ranges for the first time."""
        verdicts = Verdicts(judge.reasons, self._folder) if judge is not None else None
        self._sizes, done = [], 0
        found: _Found
        for part, found in zip(self._ranges, self._run(self._reader, "survey", self._ranges), strict=True):
            self._sizes.append(found.sizes)
            if verdicts is not None:
                verdicts.add(found.verdicts)
            self._progress(done, label)
            done += part.lines
        ends = np.cumsum([0, *map(len, self._sizes)])
        self._firsts = 2 * ends  # the number of the first line of each range, among the lines of pairs with text
        if verdicts is not None:
            kept, numbers = verdicts.finish()
            self._kept = np.split(kept, ends[1:-1])
            self._log_cleaning(numbers, len(kept))

    def _number_lines(self, sides: slice) -> Iterator[tuple[int, int]]:
        """Yields the number of each line that may be drawn, and its characters."""
        for i, sizes in enumerate(self._sizes or ()):
            chosen = np.zeros_like(sizes)
            chosen[:, sides] = sizes[:, sides]
            if self._kept is not None:
                chosen[~self._kept[i]] = 0
            flat = chosen.reshape(-1)
            lines = np.flatnonzero(flat)
            yield from zip((self._firsts[i] + lines).tolist(), flat[lines].tolist(), strict=True)

    def _run(self, reader: RangeReader, method: str, tasks: Iterable[Any]) -> Iterator[Any]:
        if self._num_workers > 1:
            return in_processes(reader, method, tasks, self._num_workers)
        return map(getattr(reader, method), tasks)
