"""Log-probabilities of given targets, for each pair of lines, and of the pieces of outputs."""

from __future__ import annotations

import dataclasses
import logging
import math
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from t2t_lite.decoding.dropout_passes import DropoutPasses
from t2t_lite.decoding.line_translator import Hypothesis, LineTranslator
from t2t_lite.decoding.memory import TokenBudget
from t2t_lite.decoding.piece_scores import piece_entropies, piece_log_probs
from t2t_lite.decoding.quality import QualityEstimate
from t2t_lite.decoding.sized_graph import SizedGraph
from t2t_lite.decoding.translate import SEARCH_SIGNATURE, Translator, pad
from t2t_lite.decoding.word_scores import WordScores, word_scores
from t2t_lite.errors import DataError, UsageError
from t2t_lite.ids import EOS
from t2t_lite.ops import threads
from t2t_lite.text.any_vocabulary import AnyVocabulary
from t2t_lite.text.unknown_pieces import UnknownPieces

_BATCH_TOKENS = 2048  # a `TokenBudget` of the longer side: the logits of all targets are in memory at once

_GRAPHS: weakref.WeakKeyDictionary[SizedGraph, dict[bool, SizedGraph]] = weakref.WeakKeyDictionary()
_PASSES: weakref.WeakKeyDictionary[SizedGraph, dict[int, DropoutPasses]] = weakref.WeakKeyDictionary()

_log = logging.getLogger("t2t_lite")


@dataclasses.dataclass(frozen=True)
class PairScore:
    """Score of one pair: the log-probability (natural) of the target, and the number of its pieces, EOS included.

    Both are 0 if the source is blank. A blank target consists of its end symbol. words: None unless asked for.
    """

    log_prob: float
    tokens: int
    words: WordScores | None = dataclasses.field(default=None, compare=False)

    @property
    def perplexity(self) -> float:
        """Perplexity per piece; NaN if there are no pieces."""
        return math.exp(min(-self.log_prob / self.tokens, 700.0)) if self.tokens else math.nan


def score(
    translator: Translator,
    sources: Sequence[str],
    targets: Sequence[str],
    progress: Callable[[int], None] | None = None,
    words: bool = False,
) -> list[PairScore]:
    """Scores line N of the targets as an output for line N of the sources, as the export's signature `score` does.

    Sources are cut to max_source_length pieces, as for a translation, and targets to the longest output of such a
    source. A warning counts those that are cut. Symbols that a parser does not have count as unknown; a warning says
    so.

    Args:
        translator: its model scores. For a parser, targets are trees, in brackets or linearised.
        progress: called with the number of pairs of each finished batch, blank ones in the first call.
        words: scores have those of their words.

    Raises:
        T2TError: the device has too little memory.
        DataError: the target of a parser is a tree with broken brackets.
        UsageError: words are asked for of a parser.
    """
    if words:
        translator.with_word_scores()
    limit = translator.decode.max_source_length
    source = _encode(translator, translator.source_vocabulary, translator.source, sources, limit, "sources")
    longest = translator.longest_output(limit)
    target = _encode(translator, translator.target_vocabulary, translator.target, targets, longest, "targets")
    _warn_of_unknown(translator, targets)
    target = [ids or [EOS] for ids in target]
    results = []
    for ids, [values] in zip(target, _score_ids(translator, source, target, progress), strict=True):
        found = word_scores(translator.target_vocabulary, ids[: len(values)], values.tolist()) if words else None
        results.append(PairScore(float(values.sum()), len(values), found))
    return results


def with_scores(translator: LineTranslator, *, quality: bool) -> LineTranslator:
    """Returns the translator whose outputs `score_outputs` takes; UsageError if they have none of these scores."""
    if quality and not isinstance(translator, Translator):
        raise UsageError("Quality estimates need a run, which translates whole lines: no export, no split_sentences.")
    return translator.with_word_scores()


def score_outputs(
    translator: LineTranslator,
    lines: Sequence[str],
    results: Sequence[Sequence[Hypothesis]],
    *,
    words: bool,
    quality: bool,
    dropout_passes: int = 0,
) -> list[list[Hypothesis]]:
    """Returns the outputs that a translator found for lines, with scores of their words, quality estimates, or both.

    Those of an export are found with scores of words and returned as they are.

    They are the model's own, whatever a sampler or a penalty of repetitions or coverage made of them; otherwise they
    add up to the score times the length penalty, but for rounding.

    Args:
        dropout_passes: how many passes with dropout the quality estimates are of, too.

    Raises:
        UsageError: as `with_scores` and `DropoutPasses`.
    """
    translator = with_scores(translator, quality=quality)
    if not isinstance(translator, Translator):
        return [[*row] for row in results]
    encoded, _, _ = translator.encode(lines)
    sources = [source for source, row in zip(encoded, results, strict=True) for _ in row]
    targets = [one.ids for row in results for one in row]
    found = iter(_score_ids(translator, sources, targets, entropies=quality))
    passes = iter(_run_passes(translator, sources, targets, dropout_passes))

    vocabulary = translator.target_vocabulary

    def scored(one: Hypothesis) -> Hypothesis:
        values, of_passes = next(found), next(passes)
        return dataclasses.replace(
            one,
            words=word_scores(vocabulary, one.ids, values[0].tolist()) if words else None,
            quality=QualityEstimate.of(*values, passes=of_passes) if quality else None,
        )

    return [[scored(one) for one in row] for row in results]


def _run_passes(
    translator: Translator, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], number: int
) -> Iterable[np.ndarray | None]:
    """What `DropoutPasses` gives for each output; None without passes, and for a blank line."""
    if not number:
        return [None] * len(targets)
    graphs = _PASSES.setdefault(translator.search_graph, {})
    if number not in graphs:
        graphs[number] = DropoutPasses(translator.model, number, jit=translator.search_graph.jit)

    def run(at: int) -> np.ndarray | None:
        return graphs[number].run(sources[at], targets[at], _BATCH_TOKENS) if sources[at] else None

    return threads.parallel_map(run, range(len(targets)))


def _score_ids(
    translator: Translator,
    source: Sequence[Sequence[int]],
    target: Sequence[Sequence[int]],
    progress: Callable[[int], None] | None = None,
    *,
    entropies: bool = False,
) -> list[np.ndarray]:
    """The log-probability of each piece of each target, float32 [1, T]; T is 0 where the source is blank.

    entropies: those of `piece_entropies` follow, [2, T].
    """
    graph, budget = _graph_of(translator, entropies), TokenBudget(_BATCH_TOKENS)

    def score_rows(rows: Sequence[int]) -> tuple[Sequence[int], list[np.ndarray]]:
        length = lengths[rows[0]]

        def what(number: int) -> str:
            return f"{number} pair{'s' * (number > 1)} of up to {length} pieces a side"

        def scores(rows: Sequence[int]) -> list[np.ndarray]:
            found = graph(*(pad([side[i] for i in rows]) for side in (source, target)), tokens=budget.tokens)
            return [values[:, : len(target[i])] for i, values in zip(rows, np.stack(found, 1), strict=True)]

        def size(number: int) -> int:
            return graph.count_padded_tokens(number, length, budget.tokens)

        return rows, budget.spend(scores, rows, size=size, what=what, advice=advice)

    limit = translator.decode.max_source_length
    advice = f"Lower max_source_length (now {limit}), or cut the lines into sentences."
    results = [np.zeros([1 + entropies, 0], np.float32)] * len(source)
    lengths = [max(len(s), len(t)) if s else 0 for s, t in zip(source, target, strict=True)]
    if progress:
        progress(lengths.count(0))
    batches = _batches(lengths, lambda length: graph.most_rows(budget.tokens, length))
    for rows, found in threads.parallel_map(score_rows, batches):
        for i, values in zip(rows, found, strict=True):
            results[i] = values
        if progress:
            progress(len(rows))
    return results


def _graph_of(translator: Translator, entropies: bool) -> SizedGraph:
    """The graph of `piece_log_probs`, or `piece_entropies`, of a translator's model; tracing takes seconds."""
    graphs = _GRAPHS.setdefault(translator.search_graph, {})  # which copies of the translator share
    if entropies not in graphs:
        model = translator.model  # the graph keeps the model, and must not keep the translator

        def of_pieces(source: Any, target: Any, jit: bool = False) -> tuple[Any, ...]:
            return piece_entropies(model, source, target) if entropies else (piece_log_probs(model, source, target),)

        signature, jit = [SEARCH_SIGNATURE[0]] * 2, translator.search_graph.jit
        what = f"the scoring of a {type(model).__name__}"
        graphs[entropies] = SizedGraph(of_pieces, signature, jit=jit, what=what)
    return graphs[entropies]


def _encode(
    translator: Translator,
    vocabulary: AnyVocabulary,
    read: Callable[[str], str],
    lines: Sequence[str],
    limit: int,
    name: str,
) -> list[list[int]]:
    """The pieces of each line, as `read` gives it, and EOS, at most `limit` in all; empty for a blank line."""
    texts = []
    for number, line in enumerate(lines, 1):
        try:
            texts.append(read(line) if line.strip() else "")
        except DataError as error:
            raise DataError(f"{name}, line {number}: {error}") from error
    pieces = vocabulary.encode_source(texts) if name == "sources" else vocabulary.encode_many(texts)
    if name == "sources" or translator.outputs.is_text:  # symbols of a parser have a warning of their own
        unknown = UnknownPieces()
        unknown.add(vocabulary, texts, pieces)
        translator.warn_of_unknown(name.removesuffix("s"), unknown, vocabulary)
    cut = sum(len(ids) >= limit for ids in pieces)
    if cut:
        _log.warning(
            "%d of %d %s are longer than %d pieces; only their beginning is scored.", cut, len(pieces), name, limit
        )
    return [[*ids[: limit - 1], EOS] if ids else [] for ids in pieces]


def _warn_of_unknown(translator: Translator, targets: Sequence[str]) -> None:
    unknown = [(n, found) for n, text in enumerate(targets, 1) if (found := translator.unknown(text))]
    if unknown:
        number, [symbol, *_] = unknown[0]
        _log.warning(
            "%d of %d targets have symbols that this parser does not have; they count as unknown, such as %r of target "
            "%d. A tree may be in brackets, or linearised like '(S (NP DT NN )NP )S'.",
            *(len(unknown), len(targets), symbol, number),
        )


def _batches(lengths: Sequence[int], most_rows: Callable[[int], int]) -> Iterator[list[int]]:
    """Yields pairs to score together, longest first; batches that run at the same time share what `most_rows` gives."""
    order = [int(i) for i in np.argsort([-length for length in lengths], kind="stable") if lengths[i]]
    start = 0
    while start < len(order):
        rows = max(most_rows(lengths[order[start]]) // threads.num_parallel(), 1)
        yield order[start : start + rows]
        start += rows
