"""Results of labelled bracketing, per sentence and in total, as numbers and in EVALB's columns."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from t2t_lite.errors import DataError
from t2t_lite.metrics.evalb_parameters import Parameters
from t2t_lite.metrics.score import Score

_HEAD = (
    "  Sent.                        Matched  Bracket   Cross        Correct Tag",
    " ID  Len.  Stat. Recal  Prec.  Bracket gold test Bracket Words  Tags Accracy",
)
_RULE = "=" * 76


class Status(enum.IntEnum):
    """Whether a sentence counts, in EVALB's numbers."""

    VALID = 0
    ERROR = 1
    SKIP = 2


class SentenceScore(NamedTuple):
    """The counts of one sentence; if it is not valid, only its length.

    Attributes:
        length: words of the gold tree, punctuation included.
        status: whether it counts.
        matched, gold, test: brackets that match, of the gold tree and of the other.
        crossing: brackets of the other tree that cross one of the gold tree.
        words, tags: words that are compared, and those of them that have the gold tag.
        fault: what is wrong with a sentence in error.
    """

    length: int
    status: Status
    matched: int = 0
    gold: int = 0
    test: int = 0
    crossing: int = 0
    words: int = 0
    tags: int = 0
    fault: str = ""


@dataclasses.dataclass(frozen=True)
class Total:
    """Sums over sentences, and the scores they give. Scores are 0 to 100, and 0 if there is nothing to count.

    Attributes:
        sentences, errors, skipped, valid: sentences in all, in error, skipped, and the others.
        matched, gold, test, crossing, words, tags: sums over the valid sentences, as in SentenceScore.
        complete: sentences whose brackets all match and that lack none.
        uncrossed, crossed_twice: sentences with no crossing bracket, and with at most two.
        average_crossing: crossing brackets per sentence; not a percentage.
    """

    sentences: int
    errors: int
    skipped: int
    matched: int
    gold: int
    test: int
    crossing: int
    words: int
    tags: int
    complete: int
    uncrossed: int
    crossed_twice: int
    valid: int
    recall: float
    precision: float
    f1: float
    complete_match: float
    average_crossing: float
    tagging_accuracy: float

    @classmethod
    def of(cls, sentences: Sequence[SentenceScore]) -> Total:
        valid = [sentence for sentence in sentences if sentence.status == Status.VALID]
        names = ("matched", "gold", "test", "crossing", "words", "tags")
        sums = {name: sum(getattr(sentence, name) for sentence in valid) for name in names}
        complete = sum(sentence.matched == sentence.gold == sentence.test for sentence in valid)
        return cls(
            sentences=len(sentences),
            errors=sum(sentence.status == Status.ERROR for sentence in sentences),
            skipped=sum(sentence.status == Status.SKIP for sentence in sentences),
            **sums,
            complete=complete,
            uncrossed=sum(sentence.crossing == 0 for sentence in valid),
            crossed_twice=sum(sentence.crossing <= 2 for sentence in valid),
            valid=len(valid),
            recall=_percent(sums["matched"], sums["gold"]),
            precision=_percent(sums["matched"], sums["test"]),
            f1=f1(sums["matched"], sums["gold"], sums["test"]),
            complete_match=_percent(complete, len(valid)),
            average_crossing=_percent(sums["crossing"], len(valid)) / 100,
            tagging_accuracy=_percent(sums["tags"], sums["words"]),
        )


@dataclasses.dataclass(frozen=True)
class TreeScore(Score):
    """A score of trees.

    errors: sentences in error, which are not in the score.
    """

    errors: int = 0


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """A file of trees against a gold file.

    Attributes:
        parameters: by which they were compared.
        sentences: in the order of the files.
    """

    parameters: Parameters
    sentences: list[SentenceScore]

    @property
    def total(self) -> Total:
        """All sentences."""
        return Total.of(self.sentences)

    @property
    def short(self) -> Total:
        """The sentences up to the length `parameters.cutoff_len`."""
        return Total.of([sentence for sentence in self.sentences if sentence.length <= self.parameters.cutoff_len])

    def score(self) -> TreeScore:
        """Returns F1 over all valid sentences, with the other values in its detail."""
        total = self.total
        detail = (
            f"(recall {total.recall:.2f}, precision {total.precision:.2f}, complete match {total.complete_match:.2f}, "
            f"average crossing {total.average_crossing:.2f}, tagging accuracy {total.tagging_accuracy:.2f}; "
            f"{total.valid:,} of {total.sentences:,} sentences, {total.errors:,} in error, {total.skipped:,} skipped)"
        )
        counts = [(sentence.matched, sentence.gold, sentence.test) for sentence in self.sentences]
        segments = [f1(*sentence) for sentence in counts]
        return TreeScore("F1", total.f1, self.parameters.signature, detail, segments, counts, total.errors)

    def faults(self) -> list[str]:
        """Returns what is wrong with each sentence in error, in EVALB's words: "12 : Length unmatch (20|19)"."""
        return [f"{number} : {each.fault}" for number, each in enumerate(self.sentences, start=1) if each.fault]

    def check_errors(self) -> None:
        """Raises DataError where EVALB would stop: at the second sentence in error after MAX_ERROR of them."""
        faults = self.faults()
        if len(faults) > self.parameters.max_error + 1:
            raise DataError(
                f"{len(faults):,} of {len(self.sentences):,} sentences are in error, too many for MAX_ERROR "
                f"{self.parameters.max_error}. Is line N of both files the same sentence, one tree a line? "
                f"The first ones, by line:\n" + "\n".join(faults[:5])
            )

    def columns(self) -> Iterator[str]:
        """Yields the lines that EVALB prints: one for each sentence, one for their sum, and a summary."""
        yield from (*_HEAD, _RULE)
        for number, sentence in enumerate(self.sentences, start=1):
            yield f"{number:4d}  {sentence.length:3d}    {sentence.status:d}  " + _row(sentence)
        total = self.total
        yield _RULE
        line = ""
        if total.gold and total.test:
            brackets = f"{total.matched:6d} {total.gold:5d} {total.test:5d}  {total.crossing:5d}"
            line = f"{'':16}{total.recall:6.2f} {total.precision:6.2f} {brackets}"
        yield f"{line}  {total.words:5d} {total.tags:5d}   {total.tagging_accuracy:6.2f}"
        yield "=== Summary ==="
        yield from _summary("All", total)
        yield from _summary(f"len<={self.parameters.cutoff_len}", self.short)


def _row(sentence: SentenceScore) -> str:
    recall, precision = _percent(sentence.matched, sentence.gold), _percent(sentence.matched, sentence.test)
    accuracy = _percent(sentence.tags, sentence.words)
    brackets = f"{sentence.matched:3d}    {sentence.gold:3d}  {sentence.test:3d}    {sentence.crossing:3d}"
    return f"{recall:6.2f} {precision:6.2f}   {brackets}   {sentence.words:4d}  {sentence.tags:4d}   {accuracy:6.2f}"


def _summary(title: str, total: Total) -> Iterator[str]:
    values: dict[str, int | float] = {
        "Number of sentence": total.sentences,
        "Number of Error sentence": total.errors,
        "Number of Skip  sentence": total.skipped,
        "Number of Valid sentence": total.valid,
        "Bracketing Recall": total.recall,
        "Bracketing Precision": total.precision,
        "Bracketing FMeasure": total.f1 if total.matched else float("nan"),  # EVALB divides by zero
        "Complete match": total.complete_match,
        "Average crossing": total.average_crossing,
        "No crossing": _percent(total.uncrossed, total.valid),
        "2 or less crossing": _percent(total.crossed_twice, total.valid),
        "Tagging accuracy": total.tagging_accuracy,
    }
    yield from ("", f"-- {title} --")
    for name, value in values.items():
        yield f"{name:<25} = {value:6d}" if isinstance(value, int) else f"{name:<25} = {value:6.2f}"


def f1(matched: float, gold: float, test: float) -> float:
    """Returns labelled F1 in percent from the numbers of matched, gold and test brackets."""
    return _percent(2 * matched, gold + test)


def _percent(part: float, whole: float) -> float:
    return 100.0 * part / whole if whole else 0.0
