"""Sampled segmentations: BPE-dropout (Provilkov et al., 2020) and, of unigram vocabularies, sampling (Kudo, 2018).

Ids are spelled in characters and cut again, so that no text is needed. Words are cut independently of each other: no
piece holds a space after its first character, or else a line is cut as one word. What is drawn for a word depends on
the seed of its sequence and on its number in it alone, not on what else is cut at the same time. SentencePiece's own
sampler draws from one generator for each thread, which cannot be seeded again.

Legend: W words, C characters of the longest, L characters of the longest piece.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator
from typing import Any

import numpy as np

from t2t_lite.errors import UsageError
from t2t_lite.text import sentencepiece_model
from t2t_lite.text.any_vocabulary import WORD_START, AnyVocabulary
from t2t_lite.text.vocabulary import Vocabulary

Array = np.ndarray

_NEVER = np.iinfo(np.int32).max  # the rank of what is no merge


def check_kind(kind: str, side: str, strength: float) -> None:
    """Raises UsageError unless text of a side that is cut by a vocabulary of a kind can be cut in several ways."""
    if kind not in ("bpe", "unigram"):
        raise UsageError(
            f"hparams: bpe_dropout={strength:g} draws how text is cut into pieces, and the vocabulary of the {side} is "
            f"of the kind {kind!r}. It needs SentencePiece's bpe or unigram on both sides; leave bpe_dropout out."
        )


def make_sampler(vocabulary: AnyVocabulary, side: str, strength: float) -> SubwordSampler:
    """Returns the sampler of a vocabulary; UsageError as `check_kind`.

    Args:
        side: "source" or "target", for the message.
        strength: p of BPE-dropout, from 0 to 1; of unigram vocabularies alpha, above 0.
    """
    kind = sentencepiece_model.kind(vocabulary) if isinstance(vocabulary, Vocabulary) else vocabulary.suffix[1:]
    check_kind(kind, side, strength)
    return {"bpe": BpeDropout, "unigram": UnigramSampler}[kind](vocabulary, strength)  # type: ignore[arg-type]


def hash_numbers(numbers: Array, seed: Array | int = 0) -> Array:
    """Returns a random uint64 for each pair of number and seed (broadcast): the finaliser of SplitMix64 of their sum.

    Source: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014, Figure 17.
    """
    x = np.asarray(numbers).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.asarray(seed, np.uint64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def uniform(numbers: Array, seed: Array | int = 0) -> Array:
    """Returns what `hash_numbers` does as float64 from 0 to 1 - 2^-52."""
    return (hash_numbers(numbers, seed) >> np.uint64(12)) * 2.0**-52


class SubwordSampler(abc.ABC):
    """Cuts sequences of ids again, at random.

    Args:
        vocabulary: of SentencePiece. Its special and user-defined pieces, pieces of bytes, and pieces with a character
            that has no piece stay as they are.
        strength: as of `make_sampler`.
    """

    def __init__(self, vocabulary: Vocabulary, strength: float) -> None:
        self.strength = strength
        ordinary = sentencepiece_model.ordinary_pieces(vocabulary)
        ids = {piece: i for i, (piece, _) in ordinary.items()}
        spelled = {i: [ids.get(char, -1) for char in piece] for i, (piece, _) in ordinary.items()}
        spelled = {i: chars for i, chars in spelled.items() if -1 not in chars}
        pieces = {i: ordinary[i][0] for i in spelled}
        self._scores = np.array([ordinary.get(i, ("", 0.0))[1] for i in range(vocabulary.size)])
        self._spellings = np.concatenate([spelled.get(i, [i]) for i in range(vocabulary.size)]).astype(np.int32)
        self._spelled = np.array([len(spelled.get(i, [i])) for i in range(vocabulary.size)])
        self._fixed = np.array([i not in spelled for i in range(vocabulary.size)])
        apart = not any(WORD_START in piece[1:] for piece in pieces.values())
        self._begins = np.array([apart and pieces.get(i, "").startswith(WORD_START) for i in range(vocabulary.size)])
        self._learn(pieces, spelled)

    @abc.abstractmethod
    def _learn(self, pieces: dict[int, str], spelled: dict[int, list[int]]) -> None:
        """Makes tables of the pieces that may be cut or joined, by id, with the ids of their characters."""

    @abc.abstractmethod
    def _cut(self, words: Array, lengths: Array, seeds: Array) -> tuple[Array, Array]:
        """Cuts words, [W, C] ids of characters with 0 at the ends; returns ids [W, C] and how many each word has."""

    def draw(self, ids: Array, lengths: Array, seeds: Array) -> tuple[Array, Array]:
        """Returns the ids of sequences, one after the other, and their lengths, as they are cut now.

        Args:
            ids: int [sum of lengths], of one sequence after the other.
            lengths: int [n].
            seeds: uint64 [n], of each sequence.
        """
        counts = self._spelled[ids]
        symbols = self._spellings[_ranges((np.cumsum(self._spelled) - self._spelled)[ids], counts)]
        rows = np.repeat(np.repeat(np.arange(len(lengths)), lengths), counts)
        fixed = self._fixed[symbols]
        begins = self._begins[symbols] | fixed
        begins[1:] |= fixed[:-1] | (rows[1:] != rows[:-1])
        begins[:1] = True
        starts = np.flatnonzero(begins)
        sizes = np.diff(starts, append=len(symbols))
        first = np.searchsorted(rows[starts], np.arange(len(lengths)))
        of_words = hash_numbers(np.arange(len(starts)) - first[rows[starts]], seeds[rows[starts]])
        kept = np.ones(len(symbols), bool)
        for chosen in _by_size(sizes):
            at = starts[chosen][:, None] + np.arange(sizes[chosen].max())
            inside = at < (starts + sizes)[chosen][:, None]
            words = np.where(inside, symbols[np.minimum(at, len(symbols) - 1)], 0)
            found, number = self._cut(words, sizes[chosen], of_words[chosen])
            symbols[at[inside]] = found[inside]
            kept[at[inside]] = (np.arange(words.shape[1]) < number[:, None])[inside]
        return symbols[kept], np.bincount(rows[kept], minlength=len(lengths))


class BpeDropout(SubwordSampler):
    """BPE-dropout: Algorithm 1 of Provilkov et al. (2020), where a step merges the leftmost of the best pairs.

    All possible merges of a word are dropped with probability p, independently at each step; the best that is left is
    made. Where none is left the word is done. With p = 0 that is SentencePiece's BPE.
    """

    def _learn(self, pieces: dict[int, str], spelled: dict[int, list[int]]) -> None:
        ids = {piece: i for i, piece in pieces.items()}
        found = {}
        for i, piece in pieces.items():
            for cut in range(1, len(piece)):
                if piece[:cut] in ids and piece[cut:] in ids:
                    found[ids[piece[:cut]] * len(self._scores) + ids[piece[cut:]]] = i
        self._pairs = np.array([*sorted(found), np.iinfo(np.int64).max])
        self._merged = np.array([*(found[pair] for pair in sorted(found)), 0], np.int32)
        ranks = np.unique(-self._scores[self._merged], return_inverse=True)[1].astype(np.int32)
        self._ranks = np.append(ranks[:-1], _NEVER)

    def _find(self, left: Array, right: Array) -> tuple[Array, Array]:
        """Returns ranks and results of the merges of two ids each; the rank _NEVER where there is none."""
        pair = left.astype(np.int64) * len(self._scores) + right
        at = np.searchsorted(self._pairs, pair)
        at = np.where(self._pairs[at] == pair, at, len(self._pairs) - 1)
        return self._ranks[at], self._merged[at]

    def _cut(self, words: Array, lengths: Array, seeds: Array) -> tuple[Array, Array]:
        result, number = words.copy(), lengths.copy()
        row, step = np.arange(len(words)), 0  # of the words that are not done
        ranks, merged = self._find(words[:, :-1], words[:, 1:])
        while len(row):
            places = np.arange(words.shape[1] - 1)
            dropped = uniform((step << 32) + places, seeds[:, None]) < self.strength
            left = np.where(dropped, _NEVER, ranks)
            best = left.argmin(1)
            merges = np.take_along_axis(left, best[:, None], 1)[:, 0] < _NEVER
            result[row[~merges]] = words[~merges]
            row, best, seeds = row[merges], best[merges], seeds[merges]
            words, ranks, merged = words[merges], ranks[merges], merged[merges]
            words, ranks, merged = self._merge(words, ranks, merged, best)
            number[row] -= 1
            step += 1
        return result, number

    def _merge(self, words: Array, ranks: Array, merged: Array, best: Array) -> tuple[Array, Array, Array]:
        """Makes the merge at the place `best` of each word; what is behind it moves to the left."""
        rows = np.arange(len(words))
        words[rows, best] = merged[rows, best]
        words, ranks, merged = _remove(words, best + 1, 0), _remove(ranks, best, _NEVER), _remove(merged, best, 0)
        for place in (np.maximum(best - 1, 0), np.minimum(best, ranks.shape[1] - 1)):
            ranks[rows, place], merged[rows, place] = self._find(words[rows, place], words[rows, place + 1])
        return words, ranks, merged


class UnigramSampler(SubwordSampler):
    """Sampling of a unigram vocabulary: P(pieces) ~ (product of their probabilities)^alpha (Kudo, 2018, section 3.2).

    It is drawn among all ways to cut a word (l = infinity there, nbest_size=-1 in SentencePiece), by
    forward-filtering and backward-sampling.
    """

    def _learn(self, pieces: dict[int, str], spelled: dict[int, list[int]]) -> None:
        self._longest = max(map(len, spelled.values()))
        nodes: dict[tuple[int, ...], int] = {(): 0}  # prefixes of pieces, as a trie
        for chars in spelled.values():
            for end in range(1, len(chars) + 1):
                nodes.setdefault(tuple(chars[:end]), len(nodes))
        size = len(self._scores)
        edges = {nodes[prefix[:-1]] * size + prefix[-1]: node for prefix, node in nodes.items() if prefix}
        self._edges = np.array([*sorted(edges), np.iinfo(np.int64).max])
        self._nodes = np.array([*(edges[edge] for edge in sorted(edges)), -1])
        self._piece_of = np.full(len(nodes), -1)
        for i, chars in spelled.items():
            self._piece_of[nodes[tuple(chars)]] = i

    def _lattice(self, words: Array) -> Array:
        """The piece that ends at each place and has 1, 2, ... characters; -1: none. [W, C] -> [W, C, L]."""
        pieces = np.full((*words.shape, self._longest), -1)
        nodes = np.zeros(words.shape, np.int64)  # of what begins at each place
        for length in range(1, min(self._longest, words.shape[1]) + 1):
            nodes = nodes[:, : words.shape[1] - length + 1]
            edge = nodes * len(self._scores) + words[:, length - 1 :]
            at = np.searchsorted(self._edges, edge)
            nodes = np.where((nodes >= 0) & (self._edges[at] == edge), self._nodes[at], -1)
            pieces[:, length - 1 :, length - 1] = np.where(nodes >= 0, self._piece_of[nodes], -1)
        return pieces

    def _cut(self, words: Array, lengths: Array, seeds: Array) -> tuple[Array, Array]:
        pieces = self._lattice(words)
        number, columns = words.shape
        weights = np.where(pieces >= 0, self.strength * self._scores[pieces], -np.inf)  # becomes those of whole paths
        before = np.full((number, columns + 1), -np.inf)
        before[:, 0] = 0
        for end in range(columns):
            reach = min(end + 1, self._longest)
            weights[:, end, :reach] += before[:, end + 1 - reach : end + 1][:, ::-1]
            best = weights[:, end].max(1)
            with np.errstate(divide="ignore", invalid="ignore"):  # where a word has ended already
                before[:, end + 1] = best + np.log(np.exp(weights[:, end] - best[:, None]).sum(1))
        drawn, count, at = np.zeros_like(words), np.zeros_like(lengths), lengths.copy()
        while (left := at > 0).any():
            row = np.flatnonzero(left)
            last = at[row] - 1
            shares = np.cumsum(np.exp(weights[row, last] - before[row, last + 1][:, None]), 1)
            point = uniform(last, seeds[row]) * shares[:, -1]
            length = (shares <= point[:, None]).sum(1)  # - 1
            drawn[row, count[row]] = pieces[row, last, length]
            count[row] += 1
            at[row] -= length + 1
        order = np.maximum(count[:, None] - 1 - np.arange(columns), 0)
        return np.take_along_axis(drawn, order, 1), count


def _ranges(starts: Array, counts: Array) -> Array:
    """Returns the numbers from each start, as many as its count, one range after the other."""
    return np.repeat(starts - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())


def _by_size(sizes: Array) -> Iterator[Any]:
    """Yields the indices of the words of 2 characters, of 3 or 4, of 5 to 8, and so on, where there are any."""
    classes = np.ceil(np.log2(np.maximum(sizes, 1))).astype(int)
    for number in np.unique(classes[classes > 0]):
        yield np.flatnonzero(classes == number)


def _remove(table: Array, place: Array, end: int) -> Array:
    """Returns a table [W, C] without the column `place` of each row, `end` in the last column."""
    columns = np.arange(table.shape[1])
    moved = np.take_along_axis(table, np.minimum(columns + (columns >= place[:, None]), len(columns) - 1), 1)
    moved[:, -1] = end
    return moved
