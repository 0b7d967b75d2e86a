"""Translation of lines with a model: its searches as graphs, and outputs from what they find."""

from __future__ import annotations

import copy
import dataclasses
import functools
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import tensorflow as tf

from t2t_lite.decoding.alignments import Alignment, align, check_aligns
from t2t_lite.decoding.banned_words import BannedWords
from t2t_lite.decoding.beam_search import beam_search, fewest_candidates
from t2t_lite.decoding.constraint import Constraint
from t2t_lite.decoding.coverage import check_attends, rank_by_coverage, source_attention
from t2t_lite.decoding.diverse import DiverseSearch
from t2t_lite.decoding.given import Given, lacking, pad_phrases, phrase_pieces
from t2t_lite.decoding.in_order_constraint import InOrderConstraint
from t2t_lite.decoding.line_translator import Hypothesis, LineTranslator
from t2t_lite.decoding.memory import TokenBudget
from t2t_lite.decoding.phrases import PhraseConstraint, PhraseSearch
from t2t_lite.decoding.prefixes import prefix_pieces
from t2t_lite.decoding.replace_unknown import UnknownReplacer
from t2t_lite.decoding.rules import NO_RULES, Rules
from t2t_lite.decoding.sampling import Sampling, sample
from t2t_lite.decoding.sized_graph import SizedGraph
from t2t_lite.decoding.tree_constraint import TreeConstraint
from t2t_lite.errors import UsageError
from t2t_lite.groups import LATER, OF_OUTPUTS, DecodeGroup
from t2t_lite.ids import PAD
from t2t_lite.models.base import Model
from t2t_lite.ops.int8 import int8_matrices
from t2t_lite.ops.shortlisted import no_shortlist
from t2t_lite.text.any_vocabulary import AnyVocabulary
from t2t_lite.text.codec import Outputs
from t2t_lite.text.shortlist import Shortlist

if TYPE_CHECKING:
    from t2t_lite.decoding.mbr import MinimumBayesRisk

# Of `Translator.search`, and its third input if outputs are constrained, or begin with prefixes.
SEARCH_SIGNATURE = [tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([], tf.bool)]
PREFIX_SIGNATURE = [*SEARCH_SIGNATURE, SEARCH_SIGNATURE[0]]
_PHRASES_SIGNATURE = [*PREFIX_SIGNATURE, tf.TensorSpec([None, None, None], tf.int32)]
_SIZES = tf.TensorSpec([None], tf.int32)

_log = logging.getLogger("t2t_lite")


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
        banned: what no output writes; see `ban`.
        shortlist: whose pieces outputs have; see `shorten`; None: all pieces.
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
        if decode.coverage_penalty:
            check_attends(model, f"coverage_penalty={decode.coverage_penalty:g}")
        self.prepack = False
        self.sampling: Sampling | None = None
        self.banned: BannedWords | None = None
        self.shortlist: Shortlist | None = None
        self._replacer: UnknownReplacer | None = None
        self.mbr: MinimumBayesRisk | None = None
        what = f"the search of a {type(model).__name__}"
        self.search_graph = SizedGraph(self.search, self.search_signature, jit=jit, what=what)
        what = f"{what} with prefixes"
        self._prefix_graph = SizedGraph(self.search_from_prefix, PREFIX_SIGNATURE, jit=jit, what=what)
        what = f"the search of a {type(model).__name__} with constraints"
        self._phrases_graph = SizedGraph(self._search_with_phrases, _PHRASES_SIGNATURE, jit=jit, what=what)

    def start_aligning(self) -> None:
        check_aligns(self.model)
        self._weights = self._attention_graph(align, "alignments")
        self.aligns = True

    def with_word_scores(self) -> Self:
        if not self.is_text:
            raise UsageError("Scores of words and quality are of text, and this model writes trees. Leave them out.")
        if self.shortlist:
            raise UsageError(
                "Scores of words and quality are of the probabilities among all pieces, which do not add up to a score "
                "with a shortlist. Leave one of them out."
            )
        return self

    def ban(self, words: Iterable[str]) -> None:
        """Lets no output write `words` from now on, see `BannedWords`; before the first translation."""
        if not self.is_text:
            raise UsageError("banned_words is for text, and this model writes trees. Leave it out.")
        self.banned = BannedWords(words, self.target_vocabulary)

    def shorten(self, shortlist: Shortlist) -> None:
        """Lets outputs have the pieces of a shortlist alone from now on; after all else is set.

        Raises:
            UsageError: the search is of a kind that takes no shortlist.
        """
        others = {
            "a parser, which writes trees": not self.is_text,
            "XLA, which compiles searches on GPUs": self.search_graph.jit,
            "a sampler": self.sampling,
            "banned_words": self.banned,
            "beam_groups": self.decode.beam_groups > 1,
            **self._rules.changed(),
        }
        if other := next((name for name, there in others.items() if there), None):
            raise UsageError(f"shortlist does not go with {other}. Leave one of them out.")
        for member in self.model.members().values():
            if type(member).logits is not Model.logits:
                raise UsageError(no_shortlist(member))
        self.shortlist = shortlist
        what = f"the search of a {type(self.model).__name__} with a shortlist"
        self.search_graph = SizedGraph(self._search_in_shortlist, PREFIX_SIGNATURE, jit=False, what=what)

    def start_replacing(self) -> None:
        """Lets outputs have words of the source for unknown pieces from now on; UsageError if that cannot be."""
        if not self.is_text:
            raise UsageError("replace_unk is for text, and this model writes trees. Leave it out.")
        check_attends(self.model, "replace_unk")
        if self.target_vocabulary.unknown is None:
            _log.warning("replace_unk has no effect: the target vocabulary has no unknown piece.")
        elif not self.decode.unknown_output:
            _log.warning("replace_unk has no effect: with unknown_output=false, no output has an unknown piece.")
        else:
            self._replacer = UnknownReplacer(self.source_vocabulary, self.target_vocabulary)
            self._attention = self._attention_graph(source_attention, "attention")

    def _attention_graph(self, of: Callable[..., Any], name: str) -> SizedGraph:
        def weights(source: Any, target: Any, jit: bool = False) -> tuple[Any]:
            return (of(self.model, source, target),)

        what = f"the {name} of a {type(self.model).__name__}"
        return SizedGraph(weights, [SEARCH_SIGNATURE[0]] * 2, jit=self.search_graph.jit, what=what)

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
        found = {name: value for name, value in found.items() if name not in usual} | {"precision": precision}
        return found if self.shortlist is None else {**found, "shortlist": self.shortlist.checksum}

    @property
    def search_signature(self) -> list[Any]:
        """The inputs of `search`."""
        return [*SEARCH_SIGNATURE, *([_SIZES] if self._grammar else [])]

    def search_from_prefix(self, source: Any, early_stop: Any, prefix: Any, jit: bool = False) -> tuple[Any, Any]:
        """`search` for outputs that begin with `prefix`; see `Search.force`."""
        return self.search(source, early_stop, jit=jit, prefix=prefix)

    def _search_with_phrases(
        self, source: Any, early_stop: Any, prefix: Any, phrases: Any, jit: bool = False
    ) -> tuple[Any, Any]:
        """`search_from_prefix` for outputs that have `phrases`; see `PhraseConstraint`."""
        return self.search(source, early_stop, jit=jit, prefix=prefix, phrases=phrases)

    def _search_in_shortlist(self, source: Any, early_stop: Any, candidates: Any) -> tuple[Any, Any]:
        """`search` for outputs of `candidates`; see `Search.shorten`."""
        return self.search(source, early_stop, candidates=candidates)

    @property
    def _never(self) -> tuple[int, ...]:
        """The symbols that no output has."""
        unknown = self.target_vocabulary.unknown
        return (PAD,) if self.decode.unknown_output or unknown is None else (PAD, unknown)

    def search(
        self,
        source: Any,
        early_stop: Any,
        sizes: Any = None,
        jit: bool = False,
        prefix: Any = None,
        phrases: Any = None,
        candidates: Any = None,
    ) -> tuple[Any, Any]:
        """`beam_search`, or `sample`, with this translator's model and settings; an export runs the same.

        Args:
            sizes: int32 [B], as `_size` gives them; None if outputs are not constrained.
            jit: the graph is for XLA.
            prefix: see `search_from_prefix`.
            phrases: see `PhraseConstraint`; None: none.
            candidates: see `_search_in_shortlist`; None: all symbols.
        """
        decode = self.decode
        constraints: list[Constraint] = []
        if self._grammar:
            constraints += [(InOrderConstraint if self._grammar.in_order else TreeConstraint)(self._grammar, sizes)]
        constraints += [self.banned] if self.banned else []
        constraints += [PhraseConstraint(phrases, self.target_vocabulary.size)] if phrases is not None else []
        how: dict[str, Any] = {
            "extra_length": decode.extra_length,
            "prepack": self.prepack and not jit,
            "constraints": constraints,
            "jit": jit,
            "never": self._never,
            "length_factor": decode.max_length_factor,
            "rules": self._rules,
            "prefix": prefix,
        }
        if self.sampling is not None:
            return sample(self.model, source, self.sampling, num_samples=decode.beam_size, **how)
        if phrases is not None:
            how["kind"] = PhraseSearch
        elif decode.beam_groups > 1:
            groups, strength = decode.beam_groups, decode.diversity_strength
            how["kind"] = functools.partial(DiverseSearch, groups=groups, strength=strength)
        ids, scores = beam_search(
            self.model,
            source,
            beam_size=decode.beam_size,
            alpha=decode.length_penalty,
            early_stop=early_stop if not decode.coverage_penalty else False,  # all outputs of the beam are ranked
            form=decode.length_penalty_form,
            candidates=candidates,
            **how,
        )
        if decode.coverage_penalty:
            return rank_by_coverage(self.model, source, ids, scores, decode.coverage_penalty)
        return ids, scores

    def run_search(
        self,
        lines: Sequence[str],
        ids: Sequence[Sequence[int]],
        early_stop: bool,
        prefixes: Sequence[str] | None = None,
        phrases: Sequence[Sequence[Sequence[int]]] | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns what the graph of `search` finds for lines; `ids` are their pieces, cut, ended by EOS.

        Args:
            phrases: the pieces of each line's constraints.
        """
        if prefixes is not None and not self.is_text:
            raise UsageError("A prefix is the beginning of a text, and this model writes trees. Leave it out.")
        if self.shortlist and (prefixes is not None or phrases is not None):
            other = "constraints" if prefixes is None else "prefixes"
            raise UsageError(f"shortlist does not go with {other}. Leave one of them out.")
        if prefixes is not None or phrases is not None:
            lengths = [self.longest_output(len(row)) for row in ids]
            pairs = zip(prefixes or [""] * len(ids), lengths, strict=True)
            forced = pad([prefix_pieces(prefix, self.target_vocabulary, longest) for prefix, longest in pairs])
            if phrases is None:
                outputs, scores = self._prefix_graph(pad(ids), early_stop, forced, tokens=self._budget.tokens)
            else:
                given = (forced, pad_phrases(phrases))
                outputs, scores = self._phrases_graph(pad(ids), early_stop, *given, tokens=self._budget.tokens)
            return outputs, scores
        sizes = []
        if self._grammar:
            sizes = [np.array([self._size(line, row) for line, row in zip(lines, ids, strict=True)], np.int32)]
        if self.shortlist:
            sizes = [self.shortlist.candidates(ids, fewest_candidates(self.decode.beam_size, self._never))]
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
        self, lines: Sequence[str], ids: Sequence[Sequence[int]], nbest: int, given: Given
    ) -> list[list[Hypothesis]]:
        if self.mbr and self.decode.coverage_penalty and not self.sampling:
            raise UsageError("coverage_penalty and decode=mbr both rank the beam's outputs. Leave one of them out.")
        number = self.decode.beam_size if self.mbr else nbest
        phrases = self._phrases(ids, given.constraints)
        outputs, scores = self.run_search(lines, ids, number == 1, given.prefixes, phrases)
        found = [
            [self.hypothesis(line, h, v) for h, v in zip(hypotheses[:number], values[:number], strict=True)]
            for line, hypotheses, values in zip(lines, outputs, scores, strict=True)
        ]
        if phrases is not None and given.constraints is not None:
            rows = zip(given.constraints, phrases, found, strict=True)
            found = [[dataclasses.replace(h, unmet=lacking(c, p, h.ids)) for h in row] for c, p, row in rows]
        if self._replacer:
            found = self._replace_unknown(lines, ids, found)
        if self.mbr:
            search, texts = None if self.sampling else self.decode, map(self.labelled, lines)
            found = [self.mbr.choose(line, row, search)[:nbest] for line, row in zip(texts, found, strict=True)]
        if not self.aligns:
            return found
        alignments = iter(self.align(np.repeat(pad(ids), nbest, 0), pad([one.ids for row in found for one in row])))
        return [[dataclasses.replace(one, alignment=next(alignments)) for one in row] for row in found]

    def _phrases(
        self, ids: Sequence[Sequence[int]], constraints: Sequence[Sequence[str]] | None
    ) -> list[list[list[int]]] | None:
        """The pieces of the lines' constraints; None without any, where the usual search serves."""
        if constraints is None or not any(constraints):
            return None
        if not self.is_text or self.sampling or self.decode.beam_groups > 1:
            others = {"trees": not self.is_text, "a sampler": self.sampling, "beam_groups": True}
            other = next(name for name, there in others.items() if there)
            raise UsageError(f"Constraints are of a beam search for text, and do not go with {other}. Leave one out.")
        lengths = [self.longest_output(len(row)) for row in ids]
        vocabulary, pairs = self.target_vocabulary, zip(constraints, lengths, strict=True)
        return [phrase_pieces(phrases, vocabulary, longest, self.banned) for phrases, longest in pairs]

    def _replace_unknown(
        self, lines: Sequence[str], ids: Sequence[Sequence[int]], found: list[list[Hypothesis]]
    ) -> list[list[Hypothesis]]:
        """The outputs, with words of the source for unknown pieces."""
        unknown = self.target_vocabulary.unknown
        places = [(i, n) for i, row in enumerate(found) for n, one in enumerate(row) if unknown in one.ids]
        if not places or self._replacer is None:
            return found
        targets = pad([found[i][n].ids for i, n in places])
        [weights] = self._attention(pad([ids[i] for i, _ in places]), targets, tokens=self._budget.tokens)
        for (i, n), attention in zip(places, weights, strict=True):
            one = found[i][n]
            text = self._replacer.replace(self.source(lines[i]), ids[i], one.ids, attention)
            found[i][n] = dataclasses.replace(one, text=text)
        return found

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
