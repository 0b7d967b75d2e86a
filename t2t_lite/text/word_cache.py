"""Words whose pieces are known: most words of a text have come before, and need not be cut again.

This gives what SentencePiece gives for whole lines where no piece reaches over a space, and the cut of a word depends
on nothing but the word: in vocabularies of the kinds BPE and char, without a rule that changes characters. (In a
unigram vocabulary, sums of scores are rounded, so what stands before may decide between equal cuts.)
"""

import itertools
from collections.abc import Callable, Sequence

from t2t_lite.text.any_vocabulary import WORD_START

_MOST = 200_000  # words, with their pieces about 60 MB; all are forgotten above that


class WordCache:
    """Cuts lines word by word.

    Args:
        encode: returns the ids of each of several lines.
    """

    def __init__(self, encode: Callable[[Sequence[str]], list[list[int]]]) -> None:
        self._encode = encode
        self._ids: dict[str, list[int]] = {}

    def encode_many(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns what `encode` returns for the lines."""
        rows = [line.split(" ") for line in lines]
        new = set(itertools.chain.from_iterable(rows)).difference(self._ids)
        if len(self._ids) + len(new) > _MOST:
            self._ids.clear()
            new = set(itertools.chain.from_iterable(rows))
        words = list(new)
        self._ids.update(zip(words, self._encode(words), strict=True))
        known = self._ids.__getitem__
        ids = [list(itertools.chain.from_iterable(map(known, row))) for row in rows]
        # SentencePiece takes its mark for a space, and drops it at the end of a line.
        marked = [i for i, line in enumerate(lines) if WORD_START in line]
        for i, row in zip(marked, self._encode([lines[i] for i in marked]), strict=True):
            ids[i] = row
        return ids
