"""Cleaning of training pairs: what is left out, why, and how many of each, without holding the corpus in memory.

Reasons to leave out a pair, in this order; a pair is counted under the first that applies:

control    a control character (Unicode category Cc, except the tab): mostly text that was once decoded wrongly
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
from collections.abc import Iterable, Iterator
from typing import IO

import numpy as np

from t2t_lite.errors import DataError
from t2t_lite.languages import base_language, count_words

Pair = tuple[str, str]

REASONS = ("control", "length", "ratio", "copy", "duplicate")

_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")
_DUPLICATE = REASONS.index("duplicate")
_BLOCK = 1 << 16  # verdicts read or written at once
_PARTITION = 1 << 21  # pairs whose hashes are compared at once, in some 100 MB


def fault(pair: Pair, max_words: int, max_ratio: float, languages: tuple[str, str]) -> str | None:
    """Returns the reason to leave out a pair that can be seen from the pair alone; None: it is kept.

    Args:
        pair: (source, target), both with text.
        max_words, max_ratio: see above.
        languages: codes of source and target.
    """
    source, target = pair
    if _CONTROL.search(source) or _CONTROL.search(target):
        return "control"
    fewer, more = sorted(map(count_words, pair, languages))
    if more > max_words:
        return "length"
    if more > max_ratio * fewer:
        return "ratio"
    return "copy" if source.strip() == target.strip() and not one_language(*languages) else None


def one_language(source: str, target: str) -> bool:
    """Whether two codes are of one language, such as pt and pt_BR, in which many sentences are the same."""
    return base_language(source) == base_language(target)


class Cleaner:
    """Cleaner: judges all pairs once, then filters the same pairs each time they are read.

    The file holds a verdict of 8 bytes for each pair: the reason, or else the pair's hash. Duplicates are then found
    among the hashes, one partition at a time.

    Args:
        pairs: the pairs to clean.
        file: an empty file for the verdicts, open for writing and reading as long as the Cleaner is used.
        max_words, max_ratio: see above.
        languages: codes of source and target.

    Attributes:
        pairs: number of pairs judged.
        counts: number of pairs left out, by reason.
    """

    def __init__(
        self,
        pairs: Iterable[Pair],
        file: IO[bytes],
        max_words: int,
        max_ratio: float,
        languages: tuple[str, str] = ("source", "target"),
    ) -> None:
        self._file, self._max_words, self._max_ratio, self._languages = file, max_words, max_ratio, languages
        self.pairs = self._judge(pairs)
        partitions = -(-self.pairs // _PARTITION)
        for partition in range(partitions):
            self._mark_doubles(partition, partitions)
        self.counts = dict.fromkeys(REASONS, 0)
        for _, block in self._blocks():
            for verdict, reason in enumerate(REASONS):
                self.counts[reason] += int(np.count_nonzero(block == verdict))

    def clean(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """Yields the pairs that are kept; DataError if `pairs` are more or fewer than the pairs that were judged."""
        stream = iter(pairs)
        for _, block in self._blocks():
            for keep in (block >= len(REASONS)).tolist():
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
        found = fault(pair, self._max_words, self._max_ratio, self._languages)
        if found is not None:
            return REASONS.index(found)
        # No text holds a line end, so different pairs never give the same joined text.
        digest = hashlib.blake2b(f"{pair[0]}\n{pair[1]}".encode(), digest_size=8).digest()
        return max(int.from_bytes(digest, "little"), len(REASONS))

    def _blocks(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yields (number of its first pair, uint64 verdicts) of each block of the file."""
        for first in range(0, self.pairs, _BLOCK):
            self._file.seek(8 * first)
            yield first, np.frombuffer(self._file.read(8 * _BLOCK), np.uint64)

    def _mark_doubles(self, partition: int, partitions: int) -> None:
        """Writes "duplicate" over each hash of this partition that an earlier pair also has."""
        numbers, hashes = [], []
        for first, block in self._blocks():
            mine = np.flatnonzero((block % partitions == partition) & (block >= len(REASONS)))
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
