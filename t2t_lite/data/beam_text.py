"""Preparation of training text as a pipeline of Apache Beam, for machines that see one file system.

Its steps are those of `RangeText`: all ranges are surveyed, the pairs and the lines to train on are chosen, the lines
are read, the vocabulary is trained, and the ranges are encoded. What a step finds is a part file (parts.py), and the
process that started the pipeline puts the parts together. Pairs that only `samples` gives are read by that process; of
them, the pipeline encodes chunks.
"""

import dataclasses
import functools
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from t2t_lite.data import parts
from t2t_lite.data.encode import Coder, Pair, Side, VocabularyFiles, in_chunks, to_files
from t2t_lite.data.line_ranges import LineRange
from t2t_lite.data.overlap import Overlap
from t2t_lite.data.parts import Parts, as_array, checksum
from t2t_lite.data.pipelines import Beam, ChunkSteps, count_found, run_chunks
from t2t_lite.data.range_text import Choice, Encoded, Found, RangeReader, RangeText, choose, in_drawn_order
from t2t_lite.data.samples import OnPairs, VocabularyRecipe
from t2t_lite.data.vocabulary_files import Vocabularies
from t2t_lite.problem import AlignedPair, Problem
from t2t_lite.text.vocabulary import Vocabulary
from t2t_lite.text.vocabulary_training import train_vocabulary
from t2t_lite.version import local_version


@dataclasses.dataclass(frozen=True)
class _RangeSteps:
    """The steps of the ranges.

    Attributes:
        key: checksum of what all parts depend on.
        all_ranges: checksum of this, of all ranges, and of what vocabularies are made from.
        reader: has the files of vocabularies that are given.
        recipes: of the vocabularies to train; none where they are given.
    """

    work: Parts
    key: str
    all_ranges: str
    reader: RangeReader
    recipes: Sequence[VocabularyRecipe]

    def build(self, pipeline: Any, tasks: Sequence[LineRange]) -> None:
        """Adds the steps to a pipeline. A step waits for those that are side inputs of it."""
        import apache_beam
        from apache_beam.pvalue import AsIter

        ranges = pipeline | apache_beam.Create([*enumerate(tasks)]) | apache_beam.Reshuffle()
        once = pipeline | "once" >> apache_beam.Create([0])
        after: list[Any] = []
        if self._surveys:
            surveyed = ranges | "survey" >> apache_beam.Map(self.survey)
            after = [AsIter(once | "choose" >> apache_beam.Map(self.choose, AsIter(surveyed)))]
        if self.recipes:
            lines = ranges | "lines" >> apache_beam.Map(self.lines, *after)
            after = [AsIter(once | "train" >> apache_beam.Map(self.train, AsIter(lines)))]
        ranges | "encode" >> apache_beam.Map(self.encode, *after)

    @property
    def _surveys(self) -> bool:
        return bool(self.recipes or self.reader.judge)

    def names(self, ranges: Sequence[LineRange]) -> list[str]:
        """Returns the names of all parts."""
        numbers = range(len(ranges))
        trains = [*(self._name("lines", i) for i in numbers), self._name("vocabulary")] if self.recipes else []
        surveyed = dict.fromkeys(map(self._survey_name, ranges))  # a file that counts twice is surveyed once
        surveys = [*surveyed, self._name("choice")] if self._surveys else []
        return [*surveys, *trains, *(self._name("encoded", i) for i in numbers)]

    def _survey_name(self, part: LineRange) -> str:
        return f"survey-{checksum(self.key, _identity(part))}"  # not of other files, so that it outlives their change

    def survey(self, task: tuple[int, LineRange]) -> tuple[int, str]:
        number, part = task
        return number, self.work.make(self._survey_name(part), lambda: vars(self.reader.survey(part)))

    def choose(self, _: int, surveyed: Iterable[tuple[int, str]]) -> str:
        def compute() -> parts.Arrays:
            judge = self.reader.judge
            found = (Found(**self.work.load(name)) for _, name in sorted(surveyed))
            choice, sizes = choose(found, judge.reasons if judge else None, self.work.folder)
            drawn = {f"drawn{i}": choice.draw(sizes, sides) for i, (sides, _) in enumerate(self.recipes)}
            return {**parts.choice_to_arrays(choice), **drawn}

        return self.work.make(self._name("choice"), compute)

    def lines(self, task: tuple[int, LineRange], *_: Any) -> str:
        number, part = task
        wanted = [of_ranges[number] for of_ranges in self._wanted]
        return self.work.make(
            self._name("lines", number),
            lambda: {str(i): as_array(self.reader.lines((part, lines))) for i, lines in enumerate(wanted)},
        )

    def train(self, _: int, made: Iterable[str]) -> str:
        def compute() -> parts.Arrays:
            names = [self._name("lines", number) for number in range(len(self.choice.firsts) - 1)]
            found = {}
            for i, (_, options) in enumerate(self.recipes):
                texts = (
                    self.work.load(name)[str(i)].tobytes()
                    for name, lines in zip(names, self._wanted[i], strict=True)
                    if len(lines)
                )
                found[str(i)] = as_array(train_vocabulary(in_drawn_order(self._drawn[i], texts), **options).data)
            return found

        return self.work.make(self._name("vocabulary"), compute)

    def encode(self, task: tuple[int, LineRange], *_: Any) -> str:
        number, part = task
        kept = self.choice.kept_of(number) if self.reader.judge else None
        return self.work.make(
            self._name("encoded", number), lambda: parts.encoded_to_arrays(self._encoder.encode((part, kept)))
        )

    @functools.cached_property
    def choice(self) -> Choice:
        return parts.choice_from_arrays(self.work.load(self._name("choice")))

    def vocabularies(self) -> list[Vocabulary]:
        """Returns those that `train` has made."""
        arrays = self.work.load(self._name("vocabulary"))
        return [Vocabulary(arrays[str(i)].tobytes()) for i in range(len(self.recipes))]

    def encoded(self, number: int) -> Encoded:
        """Returns what `encode` has made of a range."""
        return parts.encoded_from_arrays(self.work.load(self._name("encoded", number)), self.reader.counts)

    @functools.cached_property
    def _drawn(self) -> list[np.ndarray]:
        arrays = self.work.load(self._name("choice"))
        return [arrays[f"drawn{i}"] for i in range(len(self.recipes))]

    @functools.cached_property
    def _wanted(self) -> list[list[np.ndarray]]:
        """By vocabulary and range, the lines to read."""
        return [self.choice.split(drawn) for drawn in self._drawn]

    @functools.cached_property
    def _encoder(self) -> RangeReader:
        if not self.recipes:
            return self.reader
        trained = self.vocabularies()
        return dataclasses.replace(self.reader, files=to_files((trained[0], trained[-1])))

    def _name(self, step: str, number: int | None = None) -> str:
        return f"{step}-{self.all_ranges}{'' if number is None else f'-{number:06}'}"


class BeamText(RangeText):
    """As `RangeText`, of parts that a pipeline makes.

    Args:
        work: where the parts are.
        key: checksum of the problem's settings, and of the pairs of dev and test.
    """

    def __init__(
        self,
        problem: Problem,
        ranges: Sequence[LineRange],
        progress: OnPairs,
        overlap: Overlap,
        beam: Beam,
        work: Parts,
        key: str,
    ) -> None:
        super().__init__(problem, ranges, progress, overlap, 1, work.folder)
        self._beam, self._work, self._key = beam, work, key
        self._steps: _RangeSteps | None = None

    def train(self, recipes: Sequence[VocabularyRecipe]) -> list[Vocabulary]:
        """As in `TrainingFacts`; encodes the text, too."""
        return self._run_steps(recipes, ()).vocabularies()

    def _encoded(self, vocabularies: Vocabularies) -> Iterator[Encoded]:
        steps = self._steps or self._run_steps((), to_files(vocabularies))
        return map(steps.encoded, range(len(self._ranges)))

    def _run_steps(self, recipes: Sequence[VocabularyRecipe], files: VocabularyFiles) -> _RangeSteps:
        given = [hashlib.sha256(data).hexdigest() for _, data in files]
        options = [dict(recipe.options) for recipe in recipes]
        all_ranges = checksum(self._key, [*map(_identity, self._ranges)], options, given)
        reader = dataclasses.replace(self._reader, files=files)
        self._steps = steps = _RangeSteps(self._work, self._key, all_ranges, reader, recipes)
        count_found(self._work, steps.names(self._ranges))
        self._beam.run(steps, self._ranges)
        if reader.judge:
            self._log_choice(steps.choice)
        return steps


def _identity(part: LineRange) -> dict[str, Any]:
    return {**dataclasses.asdict(part), "before": 0}


@dataclasses.dataclass(frozen=True)
class _PairSteps(ChunkSteps):
    """Encodes chunks of pairs."""

    coder: Coder

    def compute(self, rows: list[Any]) -> parts.Arrays:
        return parts.sides_to_arrays(self.coder.encode([_pair(*row) for row in rows]))


def _row(pair: Pair) -> list[Any]:
    return [*pair, *([pair.links] if isinstance(pair, AlignedPair) else [])]


def _pair(source: str, target: str, links: Iterable[Any] | None = None) -> Pair:
    return (source, target) if links is None else AlignedPair(source, target, map(tuple, links))


def encode_pairs(
    pairs: Iterable[Pair], vocabularies: Vocabularies, beam: Beam, work: Parts
) -> Iterator[tuple[Side, ...]]:
    """As `encode.encode_pairs`, by a pipeline; all pairs are read before it begins."""
    key = checksum(local_version(), [vocabulary.checksum for vocabulary in vocabularies])
    steps = _PairSteps(work, key, Coder(to_files(vocabularies)))
    return map(parts.sides_from_arrays, run_chunks(beam, steps, ([*map(_row, chunk)] for chunk in in_chunks(pairs))))
