"""Cleaning of training pairs; of each pair, only a byte is held in memory.

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

import hashlib
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from t2t_lite.data.doubles import Doubles
from t2t_lite.errors import DataError
from t2t_lite.languages import base_language, count_words
from t2t_lite.problem import CLEANING_REASONS
from t2t_lite.text.labels import split_label
from t2t_lite.text.markup import is_element

Pair = tuple[str, str]

_CHUNK = 1 << 16  # pairs judged at once
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


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


class Judge:
    """Judges pairs one by one.

    Args:
        max_words, max_ratio, reasons: as of `find_fault`.
        labels: with which sources may begin; they are no part of the text that is judged.
    """

    def __init__(
        self,
        max_words: int,
        max_ratio: float,
        reasons: Sequence[str] = CLEANING_REASONS,
        labels: Sequence[str] = (),
    ) -> None:
        self._limits, self.reasons, self._labels = (max_words, max_ratio), reasons, labels

    def verdict(self, pair: Pair, languages: tuple[str, str]) -> int:
        """Returns the number of the reason to leave a pair out, or else the pair's hash, which is no such number."""
        text = split_label(pair[0], self._labels)[1], pair[1]
        found = find_fault(text, *self._limits, languages, self.reasons)
        if found is not None:
            return CLEANING_REASONS.index(found)
        # With the length of the source, different pairs never give the same joined text.
        digest = hashlib.blake2b(f"{len(pair[0])}\n{pair[0]}{pair[1]}".encode(), digest_size=8).digest()
        return max(int.from_bytes(digest, "little"), len(CLEANING_REASONS))


class Verdicts:
    """The verdicts of all pairs, added in their order; holds a byte for each pair, and what `Doubles` does.

    Args:
        reasons: as of `find_fault`.
        folder: as of `Doubles`.
    """

    def __init__(self, reasons: Sequence[str], folder: Path | None = None) -> None:
        self._reasons = reasons
        self._doubles = Doubles(folder) if "duplicate" in reasons else None
        self._kept: list[np.ndarray] = []
        self._numbers = np.zeros(len(CLEANING_REASONS), np.int64)
        self._pairs = 0

    def add(self, verdicts: np.ndarray) -> None:
        """Adds what `Judge.verdict` returned for the pairs that follow, uint64 [n]."""
        kept = verdicts >= len(CLEANING_REASONS)
        self._kept.append(kept)
        self._numbers += np.bincount(verdicts[~kept].astype(np.int64), minlength=len(CLEANING_REASONS))
        if self._doubles is not None:
            self._doubles.add(verdicts[kept], np.flatnonzero(kept) + self._pairs)
        self._pairs += len(verdicts)

    def finish(self) -> tuple[np.ndarray, dict[str, int]]:
        """Returns which pairs are kept, bool [pairs], and the number of pairs left out, by reason."""
        all_kept = np.concatenate([np.zeros(0, bool), *self._kept])
        numbers = dict(zip(CLEANING_REASONS, self._numbers.tolist(), strict=True))
        if self._doubles is not None:
            later = self._doubles.later()
            all_kept[later] = False
            numbers["duplicate"] = len(later)
        return all_kept, {name: number for name, number in numbers.items() if name in self._reasons}


class Cleaner:
    """Cleaner: judges all pairs once, then filters the same pairs each time they are read; holds a byte for each.

    Args:
        judge: judges them.
        languages: as of `find_fault`; or a function that returns the languages of the pair that came last.
        folder: as of `Doubles`.

    Attributes:
        pairs: number of pairs judged.
        counts: number of pairs left out, by reason, in the order above.
    """

    def __init__(
        self,
        pairs: Iterable[Pair],
        judge: Judge,
        languages: tuple[str, str] | Callable[[], tuple[str, str]] = ("source", "target"),
        folder: Path | None = None,
    ) -> None:
        of_pair = languages if callable(languages) else lambda: languages
        verdicts = (judge.verdict(pair, of_pair()) for pair in pairs)
        found = Verdicts(judge.reasons, folder)
        while len(some := np.fromiter(itertools.islice(verdicts, _CHUNK), np.uint64)):
            found.add(some)
        self._kept, self.counts = found.finish()
        self.pairs = len(self._kept)

    def clean(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """Yields the pairs that are kept; DataError if `pairs` are more or fewer than the pairs that were judged."""
        number = 0
        for number, pair in enumerate(pairs, start=1):
            if number <= self.pairs and self._kept[number - 1]:
                yield pair
        if number != self.pairs:
            raise DataError(
                f"Cleaning: samples('train') gave {self.pairs:,} pairs with text at first, and another number when it "
                "was read again. It must give the same pairs at each call."
            )
