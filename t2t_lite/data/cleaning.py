"""Cleaning of training pairs, without holding the corpus in memory.

Reasons to leave out a pair, in this order; a pair is counted under the first of those asked for that applies:

control    a control character (Unicode category Cc, except tab and line break): mostly text once decoded wrongly
markup     both sides are one XML element, such as "<url>...</url>": lines of markup in a file of plain text
length     a side of more than `max_words` words (Moses' clean-corpus-n.perl; its usual limits are 80 to 250)
ratio      one side has more than `max_ratio` times the words of the other (clean-corpus-n.perl leaves out above 9)
copy       both sides are the same text, unless both are in one language, or in two varieties of it (pt and pt_BR)
duplicate  the same source with the same target occurred before

Words are separated by spaces. In languages without spaces, such as Chinese and Thai, their number is estimated from the
number of characters (languages.py). Pairs are distinguished by 64 bits of a hash. Among the 36 million pairs of WMT14
En-Fr, the chance that any pair is wrongly taken for a duplicate is 1 in 28,000.
"""

from __future__ import annotations

import array
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import IO

import numpy as np

from t2t_lite.errors import DataError
from t2t_lite.languages import base_language, count_words
from t2t_lite.problem import CLEANING_REASONS
from t2t_lite.text.markup import is_element

Pair = tuple[str, str]

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_DUPLICATE = CLEANING_REASONS.index("duplicate")
_BLOCK = 1 << 16  # verdicts read or written at once
_PARTITION = 1 << 21  # pairs whose hashes are compared at once, in some 100 MB


def find_fault(
    pair: Pair,
    max_words: int,
    max_ratio: float,
    languages: tuple[str, str],
    reasons: Sequence[str] = CLEANING_REASONS,
) -> str | None:
    """Returns the first of `reasons` to leave out a pair that can be seen from the pair alone; None: it is kept."""
    source, target = pair
    if "control" in reasons and (_CONTROL.search(source) or _CONTROL.search(target)):
        return "control"
    if "markup" in reasons and is_element(source) and is_element(target):
        return "markup"
    fewer, more = sorted(map(count_words, pair, languages))
    if "length" in reasons and more > max_words:
        return "length"
    if "ratio" in reasons and more > max_ratio * fewer:
        return "ratio"
    # In two varieties of one language, such as pt and pt_BR, many sentences are the same.
    copy = source.strip() == target.strip() and base_language(languages[0]) != base_language(languages[1])
    return "copy" if "copy" in reasons and copy else None


class Cleaner:
    """Cleaner: judges all pairs once, then filters the same pairs each time they are read.

    The file holds a verdict of 8 bytes for each pair: the reason, or else the pair's hash. Duplicates are then found
    among the hashes, one partition at a time.

    Args:
        pairs: the pairs to clean.
        file: an empty file for the verdicts, open for writing and reading as long as the Cleaner is used.
        max_words, max_ratio, languages, reasons: as of `find_fault`.

    Attributes:
        pairs: number of pairs judged.
        counts: number of pairs left out, by reason, in the order above.
    """

    def __init__(
        self,
        pairs: Iterable[Pair],
        file: IO[bytes],
        max_words: int,
        max_ratio: float,
        languages: tuple[str, str] = ("source", "target"),
        reasons: Sequence[str] = CLEANING_REASONS,
    ) -> None:
        self._file, self._max_words, self._max_ratio, self._languages = file, max_words, max_ratio, languages
        self._reasons = reasons
        self.pairs = self._judge(pairs)
        partitions = -(-self.pairs // _PARTITION) if "duplicate" in reasons else 0
        for partition in range(partitions):
            self._mark_doubles(partition, partitions)
        self.counts = {reason: 0 for reason in CLEANING_REASONS if reason in reasons}
        for _, block in self._blocks():
            for reason in self.counts:
                self.counts[reason] += int(np.count_nonzero(block == CLEANING_REASONS.index(reason)))

    def clean(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """Yields the pairs that are kept; DataError if `pairs` are more or fewer than the pairs that were judged."""
        stream = iter(pairs)
        for _, block in self._blocks():
            for keep in (block >= len(CLEANING_REASONS)).tolist():
                pair = next(stream, None)
                if pair is None:
                    raise self._other_pairs()
                if keep:
                    yield pair
        if next(stream, None) is not None:
            raise self._other_pairs()

    def _judge(self, pairs: Iterable[Pair]) -> int:
        """Writes the verdicts; returns how many there are."""
        block = array.array("Q")
        for pair in pairs:
            block.append(self._verdict(pair))
            if len(block) == _BLOCK:
                self._file.write(block.tobytes())
                del block[:]
        self._file.write(block.tobytes())
        return self._file.tell() // 8

    def _verdict(self, pair: Pair) -> int:
        found = find_fault(pair, self._max_words, self._max_ratio, self._languages, self._reasons)
        if found is not None:
            return CLEANING_REASONS.index(found)
        # With the length of the source, different pairs never give the same joined text.
        digest = hashlib.blake2b(f"{len(pair[0])}\n{pair[0]}{pair[1]}".encode(), digest_size=8).digest()
        return max(int.from_bytes(digest, "little"), len(CLEANING_REASONS))

    def _blocks(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yields (number of its first pair, uint64 verdicts) of each block of the file."""
        for first in range(0, self.pairs, _BLOCK):
            self._file.seek(8 * first)
            yield first, np.frombuffer(self._file.read(8 * _BLOCK), np.uint64)

    def _mark_doubles(self, partition: int, partitions: int) -> None:
        """Writes "duplicate" over each hash of this partition that an earlier pair also has."""
        numbers, hashes = [], []
        for first, block in self._blocks():
            mine = np.flatnonzero((block % partitions == partition) & (block >= len(CLEANING_REASONS)))
            numbers.append(first + mine)
            hashes.append(block[mine])
        all_numbers, all_hashes = np.concatenate(numbers), np.concatenate(hashes)
        # The sort is stable, so that equal hashes stay in the order of their pairs.
        order = np.argsort(all_hashes, kind="stable")
        double = order[1:][all_hashes[order[1:]] == all_hashes[order[:-1]]]
        verdict = np.uint64(_DUPLICATE).tobytes()
        for number in np.sort(all_numbers[double]).tolist():
            self._file.seek(8 * number)
            self._file.write(verdict)

    def _other_pairs(self) -> DataError:
        return DataError(
            f"Cleaning: samples('train') gave {self.pairs:,} pairs with text at first, and another number when it was "
            "read again. It must give the same pairs at each call."
        )
