"""What is given of the outputs of some lines: their beginnings, and phrases that they must have."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from t2t_lite.decoding.banned_words import BannedWords
from t2t_lite.errors import UsageError
from t2t_lite.text.any_vocabulary import AnyVocabulary


class Given(NamedTuple):
    """What is given, line by line; None: nothing.

    prefixes: the text that the outputs of each line begin with; "": anything.
    constraints: the phrases that the outputs of each line must have.
    """

    prefixes: Sequence[str] | None = None
    constraints: Sequence[Sequence[str]] | None = None

    def check(self, lines: Sequence[str]) -> None:
        """Raises UsageError unless there is a prefix, and a list of phrases, for each line, or none at all."""
        for what, given in (("prefix", self.prefixes), ("list of constraints", self.constraints)):
            if given is not None and len(given) != len(lines):
                raise UsageError(
                    f"Of {len(lines):,} lines, {len(given):,} have a {what}; {what} N is of line N. Give an empty one "
                    "where an output may be anything."
                )

    def of(self, rows: Sequence[int]) -> Given:
        """Returns what is given of some of the lines."""
        return Given(
            None if self.prefixes is None else [self.prefixes[i] for i in rows],
            None if self.constraints is None else [self.constraints[i] for i in rows],
        )

    @classmethod
    def next(cls, number: int, prefixes: Iterator[str] | None, constraints: Iterator[Sequence[str]] | None) -> Given:
        """Returns what is given of the next lines."""
        return cls(
            None if prefixes is None else [*itertools.islice(prefixes, number)],
            None if constraints is None else [*itertools.islice(constraints, number)],
        )


NOTHING = Given()


def phrase_pieces(
    phrases: Sequence[str], vocabulary: AnyVocabulary, longest: int, banned: BannedWords | None
) -> list[list[int]]:
    """Returns the pieces of each phrase; none for one that an output cannot have.

    That is one with a symbol that the vocabulary lacks or a banned word, or one that leaves no room for the end symbol
    after those before it.

    Args:
        longest: the most pieces of an output, the end symbol counted.
    """
    found: list[list[int]] = []
    left = longest - 1
    for phrase in phrases:
        ids = vocabulary.encode(vocabulary.line(phrase))
        fits = vocabulary.unknown not in ids and len(ids) <= left and not (banned and banned.within(ids))
        found.append(ids if fits else [])
        left -= len(found[-1])
    return found


def pad_phrases(rows: Sequence[Sequence[Sequence[int]]]) -> np.ndarray:
    """Returns int32 [B, P, M], padded with 0; P and M are powers of two, so that XLA has few sizes."""
    phrases = max(map(len, rows), default=1)
    longest = max((len(ids) for row in rows for ids in row), default=1)
    sizes = [1 << (max(size, 1) - 1).bit_length() for size in (phrases, longest)]
    array = np.zeros((len(rows), *sizes), np.int32)
    for places, row in zip(array, rows, strict=True):
        for place, ids in zip(places, row, strict=False):
            place[: len(ids)] = ids
    return array


def lacking(phrases: Sequence[str], pieces: Sequence[Sequence[int]], output: Sequence[int]) -> tuple[str, ...]:
    """Returns the phrases whose `pieces` are not in an output, in a row."""

    def has(ids: Sequence[int]) -> bool:
        return any([*output[at : at + len(ids)]] == [*ids] for at in range(len(output) - len(ids) + 1))

    return tuple(phrase for phrase, ids in zip(phrases, pieces, strict=True) if not ids or not has(ids))
