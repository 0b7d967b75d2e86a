"""Model of the tags that words have, by the word or its last letters, and the alignment of tags with words by it.

A parser writes tags without words. Where it has lost or doubled one, the model shows which tag belongs to which word,
and gives a word without a tag its own. Probabilities are kept as whole numbers, so that Python and an exported graph
(export/alignment_ops.py) find the same alignment, to the last tie.

Legend: R rows, one for each known word and ending, T tags; N words, M tags of a sentence.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

TAG = "XX"  # the one symbol for all tags in Vinyals et al. (2015); also the tag of a word about which nothing is known
Counts = Mapping[str, Mapping[str, int]]  # {word: {tag: how often}}

ENDING = 3  # letters of the longest ending
UNIT = 8  # costs are in 1/8 of a nat
SKIP = 8 * UNIT  # what a tag without a word costs, and a word without a tag
# A word and a tag that do not fit at all cost less than to leave out the tag and give the word another one.
MOST = 2 * SKIP - 1

_MOST_COSTS = 2**21  # rows x tags
_MOST_ENDINGS = 0.25  # of the rows
_MOST_HELD = 200_000  # words to count before the rarest half is dropped
_OFTEN = 5  # an ending counts a word at most so often: frequent words say little about unknown ones
_LARGEST = 2**53  # float64 holds all counts up to this one


@dataclasses.dataclass(frozen=True)
class TagModel:
    """The probabilities of tags, from counts.

    Attributes:
        words: the tags of each known word.
        endings: the tags of words by their last letters.
        first: tags that mostly stand first in their phrases; a word without a tag goes there if it has one of these.
    """

    words: Counts = dataclasses.field(default_factory=dict, repr=False)
    endings: Counts = dataclasses.field(default_factory=dict, repr=False)
    first: frozenset[str] = frozenset()

    @functools.cached_property
    def tags(self) -> list[str]:
        """By column of `costs`; one more column is for all other tags."""
        return sorted({tag for tags in self.words.values() for tag in tags})

    @functools.cached_property
    def rows(self) -> dict[str, int]:
        """The rows of `costs`: "" is of words about which nothing is known, " ing" of an ending, "cat" of a word."""
        endings = sorted(self.endings, key=lambda ending: (len(ending), ending))
        return {key: row for row, key in enumerate(["", *(f" {ending}" for ending in endings), *sorted(self.words)])}

    @functools.cached_property
    def columns(self) -> dict[str, int]:
        return {tag: column for column, tag in enumerate(self.tags)}

    @functools.cached_property
    def costs(self) -> np.ndarray:
        """uint8 [R, T + 1]: -log P(tag | word) in units, at most MOST."""
        # Without tags, nothing says that another order is better.
        costs = np.full((len(self.rows), len(self.tags) + 1), MOST if self.tags else 0, np.uint8)
        costs[:, :-1] = np.minimum(np.rint(-UNIT * np.log(self._probabilities)), MOST)
        return costs

    @functools.cached_property
    def best(self) -> np.ndarray:
        """int32 [R]: the column of the most likely tag; the one of other tags if nothing was learned."""
        found = self._probabilities.argmax(1) if self.tags else np.zeros(len(self.rows))
        return found.astype(np.int32)

    def own(self, word: str) -> str:
        """Returns the most likely tag of a word; TAG if nothing was learned."""
        column = int(self.best[self.row(word)])
        return self.tags[column] if self.tags else TAG

    @functools.cached_property
    def _probabilities(self) -> np.ndarray:
        """float64 [R, T]: counts of each row, and one more that is spread as the row for a shorter ending says."""
        found = np.ones((len(self.rows), len(self.tags)))
        for tags in self.words.values():
            for tag, count in tags.items():
                found[0, self.columns[tag]] += count
        found[0] /= max(found[0].sum(), 1.0)
        endings = [{f" {e}": tags for e, tags in self.endings.items() if len(e) == n} for n in range(1, ENDING + 1)]
        for longest, level in enumerate([*endings, self.words]):
            rows = [self.rows[key] for key in level]
            found[rows] = found[[self._ending_row(key, longest) for key in level]]
            for row, tags in zip(rows, level.values(), strict=True):
                for tag, count in tags.items():
                    found[row, self.columns[tag]] += count
            found[rows] /= found[rows].sum(1, keepdims=True)
        return found

    def row(self, word: str) -> int:
        """Returns the row of a word: its own, else that of its longest known ending."""
        found = self.rows.get(word)
        return self._ending_row(word, ENDING) if found is None else found

    def _ending_row(self, word: str, longest: int) -> int:
        keys = (f" {word[-size:]}" for size in range(longest, 0, -1))
        return next((self.rows[key] for key in keys if key in self.rows), 0)

    def column(self, tag: str) -> int:
        return self.columns.get(tag, len(self.tags))

    def to_values(self) -> dict[str, Any]:
        """Returns what tags.json has of it."""
        return {"first": sorted(self.first), "words": self.words, "endings": self.endings}

    @classmethod
    def from_values(cls, values: Any) -> TagModel:
        """Returns the model of `to_values`; ValueError, or another error of a wrong type, if the values are none."""
        if "" in values["words"]:
            raise ValueError("an empty word")
        model = cls(check_counts(values["words"]), check_counts(values["endings"]), frozenset(values["first"]))
        _ = model.costs  # fails now, not in use
        return model


def check_counts(counts: Counts) -> Counts:
    """Returns counts that were read from a file; ValueError, or another error of a wrong type, if they are none."""
    if not all(
        tags and all(tag and type(n) is int and 0 < n < _LARGEST for tag, n in tags.items()) for tags in counts.values()
    ):
        raise ValueError("no counts of tags")
    return counts


class TagModelCounts:
    """Learns a model from training trees as they pass; the number of words in memory is bounded."""

    def __init__(self) -> None:
        self._words: dict[str, Counter[str]] = defaultdict(Counter)
        self._neighbours: Counter[tuple[str, str]] = Counter()

    def add_symbols(self, symbols: Sequence[str]) -> None:
        """Counts which tags stand next to brackets in the symbols of a tree."""
        self._neighbours.update(itertools.pairwise(symbols))

    def add_pairs(self, pairs: Iterable[tuple[tuple[str, str], int]]) -> None:
        """Counts ((tag, word), how often)."""
        for (tag, word), count in pairs:
            self._words[word][tag] += count
        if len(self._words) > _MOST_HELD:
            often = _most_frequent(self._words, _MOST_HELD // 2)
            self._words = defaultdict(Counter, {word: self._words[word] for word in often})

    def model(self) -> TagModel:
        """Returns the model of the most frequent words and endings, as many as there is room for."""
        number_of_tags = len({tag for tags in self._words.values() for tag in tags})
        room = _MOST_COSTS // max(number_of_tags, 1) - 1
        endings: dict[str, Counter[str]] = defaultdict(Counter)
        for word, tags in self._words.items():
            for ending in {word[-size:] for size in range(1, ENDING + 1)}:
                endings[ending].update({tag: min(count, _OFTEN) for tag, count in tags.items()})
        endings = {key: endings[key] for key in _most_frequent(endings, int(room * _MOST_ENDINGS))}
        words = {key: self._words[key] for key in _most_frequent(self._words, room - len(endings))}
        known = {tag for tags in words.values() for tag in tags}
        return TagModel(_sort(words, known), _sort(endings, known), self._first(known))

    def _first(self, tags: Collection[str]) -> frozenset[str]:
        balance: Counter[str] = Counter()
        for (one, other), count in self._neighbours.items():
            if one[0] == "(" and other in tags:
                balance[other] += count
            elif one in tags and other[0] == ")":
                balance[one] -= count
        return frozenset(tag for tag, number in balance.items() if number > 0)


def _most_frequent(counts: Mapping[str, Counter[str]], number: int) -> list[str]:
    return sorted(counts, key=lambda key: (-counts[key].total(), key))[:number]


def _sort(counts: Mapping[str, Counter[str]], known: Collection[str]) -> Counts:
    """The counts in a fixed order, of the known tags alone."""
    kept = ((key, {tag: n for tag, n in sorted(tags.items()) if tag in known}) for key, tags in sorted(counts.items()))
    return {key: tags for key, tags in kept if tags}


BAND = 64  # of the alignment: after j tags the words that have passed are j - BAND to j + BAND
RANKS = 256  # costs are multiplied by it, so that the rank of a choice decides between equal ones; more than D + 1
FAR = 2**48  # a cost that no alignment has


def align(tags: Sequence[str], words: Sequence[str], model: TagModel) -> list[int | None]:
    """Returns for each tag the number of its word; None: the tag belongs to none.

    The order stays. A tag without a word costs SKIP, and so does a word without a tag; a tag on a word costs what the
    model says. The cheapest alignment within the band is found by dynamic programming over the tags; of equally cheap
    ones, one that skips late is taken. With as many tags as words, the i-th tag is the i-th word's unless another
    alignment is cheaper by more than SKIP. Tags after the first N + BAND have no word.
    """
    columns = [model.column(tag) for tag in tags]
    rows = np.array([model.row(word) for word in words])
    in_order = None
    if len(tags) == len(words):
        in_order = int(model.costs[rows, columns].sum(dtype=np.int64))
        if in_order <= 3 * SKIP:  # any other one skips a tag and a word
            return list(range(len(words)))
    number = min(len(tags), len(words) + BAND)
    place = np.arange(2 * BAND + 1)  # 0: BAND words fewer than tags
    costs = np.full(len(place), FAR)  # by place, after the tags so far
    costs[BAND] = 0
    chosen = np.zeros((number, len(place)), np.int64)
    for j, column in enumerate(columns[:number]):
        word = j - BAND + place
        there = (word >= 0) & (word < len(words))
        fit = model.costs[rows[np.clip(word, 0, len(words) - 1)], column].astype(np.int64)
        fit[~there] = FAR
        # From place d to place e >= d: e - d words are skipped, then the tag gets a word.
        reached = np.minimum.accumulate((costs - SKIP * place) * RANKS + place + 1) + SKIP * place * RANKS
        skipped = np.append(costs[1:] + SKIP, FAR) * RANKS
        best = np.minimum(reached + fit * RANKS, skipped)
        chosen[j], costs = best % RANKS, np.minimum(best // RANKS, FAR)
    words_passed = number - BAND + place
    there = (words_passed >= 0) & (words_passed <= len(words))
    ends = np.where(there, costs + SKIP * (len(words) - words_passed), FAR)
    at = int(np.argmin(ends))
    if in_order is not None and in_order <= ends[at] + SKIP:
        return list(range(len(words)))
    found: list[int | None] = [None] * len(tags)
    for j in reversed(range(number)):
        choice = int(chosen[j, at])
        if choice:
            found[j] = j - BAND + at
            at = choice - 1
        else:
            at += 1
    return found
