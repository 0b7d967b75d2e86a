"""Words whose pieces are known: most words of a text have come before, and need not be cut again.

This gives what SentencePiece gives for whole lines where no piece reaches over a space, and the cut of a word depends
on nothing but the word: in vocabularies of the kinds BPE and char, without a rule that changes characters. (In a
unigram vocabulary, sums of scores are rounded, so what stands before may decide between equal cuts.)
"""

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence

from t2t_lite.text.any_vocabulary import WORD_START

_MOST = 200_000  # words, with their pieces about 60 MB; all are forgotten above that
_TOGETHER = 64  # words that are cut as one line, as each line takes some time


class WordCache:
    """Cuts lines word by word.

    Args:
        encode: returns the ids of each of several lines.
        starts: ids of the pieces that begin with the mark for a space, as the first of each word does.
    """

    def __init__(self, encode: Callable[[Sequence[str]], list[list[int]]], starts: Collection[int]) -> None:
        self._encode, self._starts = encode, frozenset(starts)
        self._ids: dict[str, list[int]] = {}

    def encode_many(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns what `encode` returns for the lines."""
        rows = [line.split(" ") for line in lines]
        new = set(itertools.chain.from_iterable(rows)).difference(self._ids)
        if len(self._ids) + len(new) > _MOST:
            self._ids.clear()
            new = set(itertools.chain.from_iterable(rows))
        self._ids.update(self._cut(sorted(new)))
        known = self._ids.__getitem__
        ids = [list(itertools.chain.from_iterable(map(known, row))) for row in rows]
        # SentencePiece reads its mark for a space as a space, and drops it at the end of a line.
        marked = [i for i, line in enumerate(lines) if WORD_START in line]
        for i, row in zip(marked, self._encode([lines[i] for i in marked]), strict=True):
            ids[i] = row
        return ids

    def _cut(self, words: list[str]) -> Iterator[tuple[str, list[int]]]:
        """Yields each word with its ids."""
        odd = [word for word in words if not word or WORD_START in word]
        yield from zip(odd, self._encode(odd), strict=True)
        words = [word for word in words if word and WORD_START not in word]
        groups = [words[start : start + _TOGETHER] for start in range(0, len(words), _TOGETHER)]
        for group, ids in zip(groups, self._encode([" ".join(group) for group in groups]), strict=True):
            starts = [i for i, piece in enumerate(ids) if piece in self._starts]
            ends = [*starts[1:], len(ids)]
            yield from zip(group, (ids[start:end] for start, end in zip(starts, ends, strict=True)), strict=True)
