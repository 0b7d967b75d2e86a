"""Translation of lines: sorted by length, decoded in batches, put back in order."""

from __future__ import annotations

import abc
import copy
import dataclasses
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Self

from t2t_lite.decoding.alignments import BLANK, Alignment
from t2t_lite.decoding.given import NOTHING, Given
from t2t_lite.decoding.memory import TokenBudget
from t2t_lite.decoding.quality import QualityEstimate
from t2t_lite.decoding.search import longest_output, longest_outputs
from t2t_lite.decoding.word_scores import WordScores
from t2t_lite.errors import UsageError
from t2t_lite.groups import DecodeGroup
from t2t_lite.ids import EOS
from t2t_lite.ops import threads
from t2t_lite.text.any_vocabulary import AnyVocabulary
from t2t_lite.text.labels import find_label, split_label
from t2t_lite.text.unknown_pieces import UnknownPieces

_log = logging.getLogger("t2t_lite")


@dataclasses.dataclass(frozen=True)
class Hypothesis:
    """One output.

    score: log-probability / length penalty, and a coverage penalty; a sample's log-probability; an expected utility; 0
        for an empty input.
    repaired: the model's symbols were not a tree, and `text` is the tree made from them (text/trees/linearize.py).
    alignment: None unless the translator `aligns`.
    ids: the pieces, without padding, of a `Translator`.
    unmet: the constraints of its line that it lacks.
    words, quality: scores of words, and the quality estimate; None unless `score.score_outputs` added them, or the
        translator `scores_words`.
    """

    text: str
    score: float
    repaired: bool = False
    alignment: Alignment | None = dataclasses.field(default=None, compare=False)
    ids: Sequence[int] = dataclasses.field(default=(), compare=False, repr=False)
    unmet: Sequence[str] = dataclasses.field(default=(), compare=False)
    words: WordScores | None = dataclasses.field(default=None, compare=False)
    quality: QualityEstimate | None = dataclasses.field(default=None, compare=False)


class LineTranslator(abc.ABC):
    """Base class of translators: cuts lines, sorts them by length, decodes batches and restores the order.

    Args:
        source_vocabulary: lines are cut and sorted by its pieces.
        decode: the settings.

    Attributes:
        aligns: whether outputs have alignments; see `start_aligning`.
        scores_words: whether outputs are found with scores of their words; see `with_word_scores`.
        is_text: outputs are text, not trees.
        label: of the language that all lines are translated into; "" if lines begin with labels, or the model has none.
    """

    aligns = scores_words = False

    def __init__(self, source_vocabulary: AnyVocabulary, decode: DecodeGroup) -> None:
        self.source_vocabulary, self.decode, self.is_text = source_vocabulary, decode, True
        self.label = ""
        self._budget = TokenBudget(decode.decode_batch_tokens)
        self._warned_of: set[str] = set()

    def with_language(self, language: str | None) -> Self:
        """Returns this translator, or one that puts the label of a target language before each line.

        Raises:
            UsageError: the model has no such label.
        """
        if language is None:
            return self
        other = copy.copy(self)
        other.label = find_label(language, self.source_vocabulary.labels)
        return other

    def labelled(self, line: str) -> str:
        """Returns a line after the label; unchanged if it is blank."""
        if not self.label or not line.strip():
            return line
        own, _ = split_label(line, self.source_vocabulary.labels)
        if own and own not in self._warned_of:
            self._warned_of.add(own)
            _log.warning(
                "A line begins with %s, which is text to the model, as all lines are translated into the language of "
                "%s. Take the labels out of the lines, or name no target language.",
                *(own, self.label),
            )
        return f"{self.label} {line}"

    def start_aligning(self) -> None:
        """Gives an alignment to each output from now on; UsageError if there is none."""
        raise UsageError(f"The outputs of a {type(self).__name__} have no alignments.")

    def with_word_scores(self) -> Self:
        """Returns this translator, whose outputs have, or may be given, scores of words; UsageError if they cannot."""
        raise UsageError("Scores of words are of whole lines: no split_sentences. Leave one of them out.")

    def source(self, line: str) -> str:
        """Returns a line as the model reads it."""
        return self.source_vocabulary.source_line(self.labelled(line))

    def longest_output(self, length: int) -> int:
        """Returns the most pieces that an output has for a source of `length` pieces, both with their end symbols."""
        return longest_output(length, self.decode.max_length_factor, self.decode.extra_length)

    def longest_outputs(self, lengths: Any) -> Any:
        """Returns `longest_output` of each of int32 [B] lengths, in a graph."""
        return longest_outputs(lengths, self.decode.max_length_factor, self.decode.extra_length)

    @abc.abstractmethod
    def _decode(
        self, lines: Sequence[str], ids: Sequence[Sequence[int]], nbest: int, given: Given
    ) -> list[list[Hypothesis]]:
        """The `nbest` best outputs of each line of a batch; `ids` are the lines' pieces, cut, ended by EOS."""

    def translate(
        self,
        lines: Sequence[str],
        *,
        nbest: int = 1,
        progress: Callable[[int, float], None] | None = None,
        prefixes: Sequence[str] | None = None,
        constraints: Sequence[Sequence[str]] | None = None,
    ) -> list[list[Hypothesis]]:
        """Returns the `nbest` best outputs of each line, in the lines' order.

        A blank line (empty, or only white space of any kind) gives empty outputs and is not decoded.

        Args:
            nbest: at most `decode.beam_size`.
            progress: called with the number of lines of each finished batch, and their share of the work: the weights
                of all lines add up to their number.
            prefixes: text that the outputs of each line begin with, in the pieces of the target vocabulary; "" or None:
                they may begin with anything. Scores are of whole outputs.
            constraints: phrases that the outputs of each line must have; () or None: none. A warning counts the lines
                whose best output lacks one, as `Hypothesis.unmet`.

        Raises:
            T2TError: the device has too little memory.
            UsageError: as `Given.check` and `prefix_pieces`, or outputs with prefixes or constraints are no text.
        """
        results, cut, unknown = self._translate(lines, nbest, progress, Given(prefixes, constraints))
        self._warn(cut, len(lines))
        _warn_of_unmet(*_count_unmet(results))
        self.warn_of_unknown("source", unknown, self.source_vocabulary)
        return results

    def translate_blocks(
        self,
        blocks: Iterable[Sequence[str]],
        *,
        nbest: int = 1,
        progress: Callable[[int, float], None] | None = None,
        prefixes: Iterator[str] | None = None,
        constraints: Iterator[Sequence[str]] | None = None,
    ) -> Iterator[tuple[Sequence[str], list[list[Hypothesis]]]]:
        """Yields each block of lines with its outputs as soon as they are there; as `translate`.

        Only one block is in memory. A warning counts cut lines after the first block that has any. Another one at the
        end counts all if there are more, and one unknown pieces.
        """
        cut = lines = first = 0
        unknown = UnknownPieces()
        unmet, example = 0, ""
        for block in blocks:
            given = Given.next(len(block), prefixes, constraints)
            results, number, of_block = self._translate(block, nbest, progress, given)
            more, phrase = _count_unmet(results)
            unmet, example = unmet + more, example or phrase
            unknown.merge(of_block)
            lines += len(block)
            if number and not cut:
                first = number
                self._warn(number, lines)
            cut += number
            yield block, results
        if cut > first:
            self._warn(cut, lines)
        _warn_of_unmet(unmet, example)
        self.warn_of_unknown("source", unknown, self.source_vocabulary)

    def warn_again(self) -> None:
        """Lets the warnings that are given once be given again, as for the lines of another command."""
        self._warned_of.clear()

    def warn_of_unknown(self, kind: str, unknown: UnknownPieces, vocabulary: AnyVocabulary) -> None:
        """Warns of pieces that a vocabulary does not know, once for each kind, such as "source"."""
        if unknown.unknown and kind not in self._warned_of:
            self._warned_of.add(kind)
            _log.warning("%s", f"{unknown.sentence(kind)} {unknown.advice(vocabulary)}".rstrip())

    def _translate(
        self,
        lines: Sequence[str],
        nbest: int,
        progress: Callable[[int, float], None] | None,
        given: Given = NOTHING,
    ) -> tuple[list[list[Hypothesis]], int, UnknownPieces]:
        """Returns the outputs, how many lines were cut, and their unknown pieces."""
        given.check(lines)
        words = WordScores([], []) if self.scores_words else None
        blank_line = Hypothesis("", 0.0, alignment=BLANK if self.aligns else None, words=words)
        results = [[blank_line] * nbest for _ in lines]
        encoded, cut, unknown = self.encode(lines)

        def decode(rows: Sequence[int]) -> tuple[Sequence[int], list[list[Hypothesis]]]:
            longest = len(encoded[rows[0]])

            def what(number: int) -> str:
                sentences = f"{number} sentence{'s' * (number > 1)} of up to {longest} pieces"
                return f"{sentences}, {self.decode.beam_size} outputs of each"

            def outputs(rows: Sequence[int]) -> list[list[Hypothesis]]:
                return self._decode([lines[i] for i in rows], [encoded[i] for i in rows], nbest, given.of(rows))

            def size(number: int) -> int:
                return self._count_padded_tokens(number, longest)

            return rows, self._budget.spend(outputs, rows, size=size, what=what, advice=advice)

        advice = f"Lower decode_batch_tokens (now {self._budget.given}), beam_size or nbest, or max_source_length."
        blank, pieces = encoded.count([]), sum(map(len, encoded))
        if progress and blank:
            progress(blank, 0.0 if pieces else blank)
        for rows, outputs in threads.parallel_map(decode, self._batches(encoded)):
            for i, hypotheses in zip(rows, outputs, strict=True):
                results[i] = hypotheses
            if progress:
                progress(len(rows), len(lines) * sum(len(encoded[i]) for i in rows) / pieces)
        return results, cut, unknown

    def encode(self, lines: Sequence[str]) -> tuple[list[list[int]], int, UnknownPieces]:
        """Returns the pieces of each line, cut, how many lines were cut, and the unknown pieces."""
        # Blank as preparation sees it: a tab or a wide space would be a piece.
        texts = [self.source(line) if line.strip() else "" for line in lines]
        pieces = self.source_vocabulary.encode_source(texts)
        unknown = UnknownPieces()
        unknown.add(self.source_vocabulary, texts, pieces)
        encoded = [[*ids, EOS] if ids else [] for ids in pieces]
        limit = self.decode.max_source_length
        cut = sum(len(ids) > limit for ids in encoded)
        return [[*ids[: limit - 1], EOS] if len(ids) > limit else ids for ids in encoded], cut, unknown

    def _warn(self, cut: int, lines: int) -> None:
        if cut:
            _log.warning(
                "%d of %d inputs are longer than max_source_length=%d pieces; only their beginning is translated.",
                cut,
                lines,
                self.decode.max_source_length,
            )

    def _batches(self, encoded: Sequence[Sequence[int]]) -> Iterator[list[int]]:
        """Yields the line numbers of each batch; longest first, so that memory runs out early or never.

        Batches that run at the same time share `decode_batch_tokens`, and the lines.
        """
        order = sorted((i for i, ids in enumerate(encoded) if ids), key=lambda i: -len(encoded[i]))
        num_parallel, start = threads.num_parallel(), 0
        while start < len(order):
            whole = self._most_rows(len(encoded[order[start]]))
            fewest = min(whole, threads.fewest_sentences(num_parallel))
            rows = max(min(whole // num_parallel, -(-len(order) // num_parallel)), fewest, 1)
            yield order[start : start + rows]
            start += rows

    def _most_rows(self, length: int) -> int:
        """How many sentences of `length` pieces may be decoded at once."""
        return self._budget.tokens // length

    def _count_padded_tokens(self, rows: int, length: int) -> int:
        """How many tokens these sentences are with their padding."""
        return rows * length


def _count_unmet(results: Sequence[Sequence[Hypothesis]]) -> tuple[int, str]:
    """How many best outputs lack a constraint, and the first one that is lacking."""
    unmet = [best.unmet[0] for best, *_ in results if best.unmet]
    return len(unmet), unmet[0] if unmet else ""


def _warn_of_unmet(number: int, example: str) -> None:
    if number:
        _log.warning(
            "The outputs of %d line%s lack a constraint, such as %r: it has symbols that the model cannot write or "
            "banned words, it does not fit into the longest output, or the search found no such output.",
            *(number, "s" * (number > 1), example),
        )
