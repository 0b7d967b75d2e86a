"""Translation of lines: sorted by length, decoded in batches, put back in order."""

from __future__ import annotations

import abc
import copy
import dataclasses
import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import tensorflow as tf

from t2t_lite.decoding.alignments import BLANK, Alignment, align, check_aligns
from t2t_lite.decoding.beam_search import beam_search
from t2t_lite.decoding.memory import TokenBudget
from t2t_lite.decoding.prefixes import check_number, prefix_pieces
from t2t_lite.decoding.quality import QualityEstimate
from t2t_lite.decoding.rules import NO_RULES, Rules
from t2t_lite.decoding.sampling import Sampling, sample
from t2t_lite.decoding.search import longest_output, longest_outputs
from t2t_lite.decoding.sized_graph import SizedGraph
from t2t_lite.decoding.tree_constraint import TreeConstraint
from t2t_lite.decoding.word_scores import WordScores
from t2t_lite.errors import UsageError
from t2t_lite.groups import LATER, OF_OUTPUTS, DecodeGroup
from t2t_lite.ids import EOS, PAD
from t2t_lite.ops import threads
from t2t_lite.ops.int8 import int8_matrices
from t2t_lite.text.any_vocabulary import AnyVocabulary
from t2t_lite.text.codec import Outputs
from t2t_lite.text.labels import find_label, split_label
from t2t_lite.text.unknown_pieces import UnknownPieces

if TYPE_CHECKING:
    from t2t_lite.decoding.mbr import MinimumBayesRisk

# Of `Translator.search`, and its third input if outputs are constrained, or begin with prefixes.
SEARCH_SIGNATURE = [tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([], tf.bool)]
PREFIX_SIGNATURE = [*SEARCH_SIGNATURE, SEARCH_SIGNATURE[0]]
_SIZES = tf.TensorSpec([None], tf.int32)


_log = logging.getLogger("t2t_lite")


@dataclasses.dataclass(frozen=True)
class Hypothesis:
    """One output.

    score: log-probability / length penalty; a sample's log-probability; an expected utility; 0 for an empty input.
    repaired: the model's symbols were not a tree, and `text` is the tree made from them (text/trees/linearize.py).
    alignment: None unless the translator `aligns`.
    ids: the pieces, without padding, of a `Translator`.
    words, quality: scores of words, and the quality estimate; None unless `score.score_outputs` added them.
    """

    text: str
    score: float
    repaired: bool = False
    alignment: Alignment | None = dataclasses.field(default=None, compare=False)
    ids: Sequence[int] = dataclasses.field(default=(), compare=False, repr=False)
    words: WordScores | None = dataclasses.field(default=None, compare=False)
    quality: QualityEstimate | None = dataclasses.field(default=None, compare=False)


class LineTranslator(abc.ABC):
    """Base class of translators: cuts lines, sorts them by length, decodes batches and restores the order.

    Args:
        source_vocabulary: lines are cut and sorted by its pieces.
        decode: the settings.

    Attributes:
        aligns: whether outputs have alignments; see `start_aligning`.
        is_text: outputs are text, not trees.
        label: of the language that all lines are translated into; "" if lines begin with labels, or the model has none.
    """

    aligns = False

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
        self, lines: Sequence[str], ids: Sequence[Sequence[int]], nbest: int, prefixes: Sequence[str] | None
    ) -> list[list[Hypothesis]]:
        """The `nbest` best outputs of each line of a batch; `ids` are the lines' pieces, cut, ended by EOS."""

    def translate(
        self,
        lines: Sequence[str],
        *,
        nbest: int = 1,
        progress: Callable[[int, float], None] | None = None,
        prefixes: Sequence[str] | None = None,
    ) -> list[list[Hypothesis]]:
        """Returns the `nbest` best outputs of each line, in the lines' order.

        A blank line (empty, or only white space of any kind) gives empty outputs and is not decoded.

        Args:
            nbest: at most `decode.beam_size`.
            progress: called with the number of lines of each finished batch, and their share of the work: the weights
                of all lines add up to their number.
            prefixes: text that the outputs of each line begin with, in the pieces of the target vocabulary; "" or None:
                they may begin with anything. Scores are of whole outputs.

        Raises:
            T2TError: the device has too little memory.
            UsageError: as `check_number` and `prefix_pieces`, or outputs with prefixes are no text.
        """
        results, cut, unknown = self._translate(lines, nbest, progress, prefixes)
        self._warn(cut, len(lines))
        self.warn_of_unknown("source", unknown, self.source_vocabulary)
        return results

    def translate_blocks(
        self,
        blocks: Iterable[Sequence[str]],
        *,
        nbest: int = 1,
        progress: Callable[[int, float], None] | None = None,
        prefixes: Iterator[str] | None = None,
    ) -> Iterator[tuple[Sequence[str], list[list[Hypothesis]]]]:
        """Yields each block of lines with its outputs as soon as they are there; as `translate`.

        Only one block is in memory. A warning counts cut lines after the first block that has any. Another one at the
        end counts all if there are more, and one unknown pieces.
        """
        cut = lines = first = 0
        unknown = UnknownPieces()
        for block in blocks:
            starts = None if prefixes is None else [*itertools.islice(prefixes, len(block))]
            results, number, of_block = self._translate(block, nbest, progress, starts)
            unknown.merge(of_block)
            lines += len(block)
            if number and not cut:
                first = number
                self._warn(number, lines)
            cut += number
            yield block, results
        if cut > first:
            self._warn(cut, lines)
        self.warn_of_unknown("source", unknown, self.source_vocabulary)

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
        prefixes: Sequence[str] | None = None,
    ) -> tuple[list[list[Hypothesis]], int, UnknownPieces]:
        """Returns the outputs, how many lines were cut, and their unknown pieces."""
        check_number(lines, prefixes)
        blank_line = Hypothesis("", 0.0, alignment=BLANK if self.aligns else None)
        results = [[blank_line] * nbest for _ in lines]
        encoded, cut, unknown = self.encode(lines)

        def decode(rows: Sequence[int]) -> tuple[Sequence[int], list[list[Hypothesis]]]:
            longest = len(encoded[rows[0]])

            def what(number: int) -> str:
                sentences = f"{number} sentence{'s' * (number > 1)} of up to {longest} pieces"
                return f"{sentences}, {self.decode.beam_size} outputs of each"

            def outputs(rows: Sequence[int]) -> list[list[Hypothesis]]:
                starts = None if prefixes is None else [prefixes[i] for i in rows]
                return self._decode([lines[i] for i in rows], [encoded[i] for i in rows], nbest, starts)

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
            rows = max(min(whole // num_parallel, -(-len(order) // num_parallel)), fewest)
            yield order[start : start + rows]
            start += rows

    def _most_rows(self, length: int) -> int:
        """How many sentences of `length` pieces may be decoded at once."""
        return self._budget.tokens // length

    def _count_padded_tokens(self, rows: int, length: int) -> int:
        """How many tokens these sentences are with their padding."""
        return rows * length


class Translator(LineTranslator):
    """Translates text with a model and its vocabularies.

    Args:
        model: a `models.base.Model`.
        source_vocabulary, target_vocabulary: its vocabularies.
        decode: see `LineTranslator`.
        outputs: how the model's outputs are read, as prepared data or a run say; None: as text.
        jit: XLA compiles the search; for GPUs.

    Attributes:
        prepack: see `beam_search`; set it before the first translation, and not for a graph that is exported.
        sampling: beam_size outputs of each line are drawn instead of searched for; set it before the first translation.
        mbr: how the best of beam_size outputs are chosen; None: they are as they are found.
    """

    def __init__(
        self,
        model: Any,
        source_vocabulary: AnyVocabulary,
        target_vocabulary: AnyVocabulary,
        decode: DecodeGroup,
        *,
        outputs: Outputs | None = None,
        jit: bool = False,
    ) -> None:
        super().__init__(source_vocabulary, decode)
        self.model, self.target_vocabulary = model, target_vocabulary
        self.outputs = outputs or Outputs()
        self.is_text = self.outputs.is_text
        self._grammar = self.outputs.grammar()
        self._rules = Rules.of(decode)
        if self._grammar and self._rules != NO_RULES:
            given = ", ".join(f"{name}={value:g}" for name, value in self._rules.changed().items())
            raise UsageError(
                f"{given} is for text; a parser's outputs are as long as their sentences, and repeat brackets. "
                "Leave it out."
            )
        self.prepack = False
        self.sampling: Sampling | None = None
        self.mbr: MinimumBayesRisk | None = None
        what = f"the search of a {type(model).__name__}"
        self.search_graph = SizedGraph(self.search, self.search_signature, jit=jit, what=what)
        what = f"{what} with prefixes"
        self._prefix_graph = SizedGraph(self.search_from_prefix, PREFIX_SIGNATURE, jit=jit, what=what)

    def start_aligning(self) -> None:
        check_aligns(self.model)

        def weights(source: Any, target: Any, jit: bool = False) -> tuple[Any]:
            return (align(self.model, source, target),)

        signature, jit = [SEARCH_SIGNATURE[0]] * 2, self.search_graph.jit
        what = f"the alignments of a {type(self.model).__name__}"
        self._weights = SizedGraph(weights, signature, jit=jit, what=what)
        self.aligns = True

    def with_limits(self, decode: DecodeGroup) -> Translator:
        """Returns this translator with settings that differ in no field of IN_SEARCH; it has the same graph."""
        other = copy.copy(self)
        other.decode = decode
        if decode.decode_batch_tokens != self._budget.given:
            other._budget = TokenBudget(decode.decode_batch_tokens)
        return other

    @property
    def settings(self) -> dict[str, Any]:
        """What a search's outputs depend on besides the weights, JSON-ready."""
        precision = "int8" if int8_matrices(self.model) else self.model.compute_dtype
        found = {name: getattr(self.decode, name) for name in OF_OUTPUTS}
        usual = {name for name in LATER if found[name] == getattr(DecodeGroup, name)}
        return {name: value for name, value in found.items() if name not in usual} | {"precision": precision}

    @property
    def search_signature(self) -> list[Any]:
        """The inputs of `search`."""
        return [*SEARCH_SIGNATURE, *([_SIZES] if self._grammar else [])]

    def search_from_prefix(self, source: Any, early_stop: Any, prefix: Any, jit: bool = False) -> tuple[Any, Any]:
        """`search` for outputs that begin with `prefix`; see `Search.force`."""
        return self.search(source, early_stop, jit=jit, prefix=prefix)

    def search(
        self, source: Any, early_stop: Any, sizes: Any = None, jit: bool = False, prefix: Any = None
    ) -> tuple[Any, Any]:
        """`beam_search`, or `sample`, with this translator's model and settings; an export runs the same.

        Args:
            sizes: int32 [B], as `_size` gives them; None if outputs are not constrained.
            jit: the graph is for XLA.
            prefix: see `search_from_prefix`.
        """
        constraint = TreeConstraint(self._grammar, sizes) if self._grammar else None
        unknown = self.target_vocabulary.unknown
        never = (PAD,) if self.decode.unknown_output or unknown is None else (PAD, unknown)
        if self.sampling is not None:
            return sample(
                self.model,
                source,
                self.sampling,
                num_samples=self.decode.beam_size,
                extra_length=self.decode.extra_length,
                prepack=self.prepack and not jit,
                constraint=constraint,
                jit=jit,
                never=never,
                length_factor=self.decode.max_length_factor,
                rules=self._rules,
                prefix=prefix,
            )
        return beam_search(
            self.model,
            source,
            beam_size=self.decode.beam_size,
            alpha=self.decode.length_penalty,
            extra_length=self.decode.extra_length,
            early_stop=early_stop,
            prepack=self.prepack and not jit,
            constraint=constraint,
            jit=jit,
            form=self.decode.length_penalty_form,
            never=never,
            length_factor=self.decode.max_length_factor,
            rules=self._rules,
            prefix=prefix,
        )

    def run_search(
        self,
        lines: Sequence[str],
        ids: Sequence[Sequence[int]],
        early_stop: bool,
        prefixes: Sequence[str] | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns what the graph of `search` finds for lines; `ids` are their pieces, cut, ended by EOS."""
        if prefixes is not None:
            if not self.is_text:
                raise UsageError("A prefix is the beginning of a text, and this model writes trees. Leave it out.")
            lengths = [self.longest_output(len(row)) for row in ids]
            pairs = zip(prefixes, lengths, strict=True)
            forced = pad([prefix_pieces(prefix, self.target_vocabulary, longest) for prefix, longest in pairs])
            outputs, scores = self._prefix_graph(pad(ids), early_stop, forced, tokens=self._budget.tokens)
            return outputs, scores
        sizes = []
        if self._grammar:
            sizes = [np.array([self._size(line, row) for line, row in zip(lines, ids, strict=True)], np.int32)]
        outputs, scores = self.search_graph(pad(ids), early_stop, *sizes, tokens=self._budget.tokens)
        return outputs, scores

    def _most_rows(self, length: int) -> int:
        return self.search_graph.most_rows(self._budget.tokens, length)

    def _count_padded_tokens(self, rows: int, length: int) -> int:
        return self.search_graph.count_padded_tokens(rows, length, self._budget.tokens)

    def _size(self, line: str, ids: Sequence[int]) -> int:
        """The number of a line's words, or of those that the model sees if the line may have been cut."""
        size = self.outputs.size(line)
        if len(ids) < self.decode.max_source_length:
            return size
        return min(size, self.outputs.size(self.source_vocabulary.decode(ids)))

    def _decode(
        self, lines: Sequence[str], ids: Sequence[Sequence[int]], nbest: int, prefixes: Sequence[str] | None
    ) -> list[list[Hypothesis]]:
        number = self.decode.beam_size if self.mbr else nbest
        outputs, scores = self.run_search(lines, ids, number == 1, prefixes)
        found = [
            [self.hypothesis(line, h, v) for h, v in zip(hypotheses[:number], values[:number], strict=True)]
            for line, hypotheses, values in zip(lines, outputs, scores, strict=True)
        ]
        if self.mbr:
            search, given = None if self.sampling else self.decode, map(self.labelled, lines)
            found = [self.mbr.choose(line, row, search)[:nbest] for line, row in zip(given, found, strict=True)]
        if not self.aligns:
            return found
        alignments = iter(self.align(np.repeat(pad(ids), nbest, 0), pad([one.ids for row in found for one in row])))
        return [[dataclasses.replace(one, alignment=next(alignments)) for one in row] for row in found]

    def align(self, source: np.ndarray, target: np.ndarray) -> list[Alignment]:
        """Returns the alignment of each row; int32 [rows, S] and [rows, T], ended by EOS, padded with 0."""
        [weights] = self._weights(source, target, tokens=self._budget.tokens)
        sizes = (np.count_nonzero(source, 1).tolist(), np.count_nonzero(target, 1).tolist())
        return [
            Alignment(
                self.source_vocabulary.display_pieces(source[i, :s]),
                self.target_vocabulary.display_pieces(target[i, :t]),
                weights[i, :t, :s],
            )
            for i, (s, t) in enumerate(zip(*sizes, strict=True))
        ]

    def hypothesis(self, line: str, ids: np.ndarray, score: float) -> Hypothesis:
        """Returns the output for a line for which the search found the pieces `ids` [T]."""
        pieces = [i for i in ids.tolist() if i != PAD]
        text, repaired = self.outputs.output(line, self.target_vocabulary.decode(pieces))
        return Hypothesis(text, float(score), repaired, ids=pieces)

    def source(self, line: str) -> str:
        return self.outputs.source(self.labelled(line), self.source_vocabulary)

    def target(self, text: str) -> str:
        """Returns a given target as the model writes it."""
        return self.outputs.target(text, self.target_vocabulary)

    def unknown(self, text: str) -> list[str]:
        """Returns the symbols of a given target that a parser does not have."""
        return [] if self.outputs.is_text else self.outputs.unknown(self.target(text))


def pad(sequences: Sequence[Sequence[int]]) -> np.ndarray:
    """Returns int32 [rows, longest], zeros at the end of shorter rows."""
    array = np.zeros((len(sequences), max(map(len, sequences))), np.int32)
    for row, ids in zip(array, sequences, strict=True):
        row[: len(ids)] = ids
    return array
