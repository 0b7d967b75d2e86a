"""IBM Model 1 (Brown et al., 1993): how likely a target piece is as the translation of a source piece.

Each target piece of a pair is the translation of one source piece, or of none; all of them are equally likely before
anything is known. So P(target | source) is the product over target pieces e of the mean over source pieces f, and
"none", of t(e | f). EM finds t: an iteration shares each e among the f of its pair in proportion to t(e | f), and t is
the share that e then has of all that f got.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from t2t_lite.data.store import Tokens, TokenSplit
from t2t_lite.ids import PAD

NONE = PAD  # stands for no source piece
_CELLS = 1 << 22  # of target and source pieces at once, more or less


class WordModel:
    """The table t(e | f) of all pieces that are in a pair together.

    Args:
        split: the training pairs.
        pairs: int64 [n], ascending: the pairs that are read.
        iterations: of EM.
        progress: called with the number of pairs after each reading and iteration: 1 + `iterations` times that of all.

    Attributes:
        targets: int64 [V], how often each target piece is in these pairs.
    """

    def __init__(
        self,
        split: TokenSplit,
        pairs: np.ndarray,
        iterations: int,
        progress: Callable[[int], None] = lambda n: None,
    ) -> None:
        cells = np.cumsum(split.source.lengths[pairs].astype(np.int64) * split.target.lengths[pairs])
        parts = np.split(pairs, np.unique(cells // _CELLS, return_index=True)[1][1:])
        self._num_sources, self._num_targets = split.source.size, split.target.size
        self.targets = np.zeros(self._num_targets, np.int64)
        read: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        for part in parts:
            targets, keys, starts = self._cells(split, part)
            self.targets += np.bincount(targets, minlength=self._num_targets)
            found, places = np.unique(keys, return_inverse=True)
            read.append((found, places.astype(np.int32), starts))
            progress(len(part))
        # f * (number of target pieces) + e of each entry of the table, ascending.
        self._keys = np.unique(np.concatenate([found for found, _, _ in read]))
        self._table = np.ones(len(self._keys))
        cells_of = [(np.searchsorted(self._keys, found)[places].astype(np.int32), s) for found, places, s in read]
        for _ in range(iterations):
            self._table = self._iterate(cells_of)
            progress(len(pairs))

    def _iterate(self, parts: Iterable[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        """The table after another iteration.

        Args:
            parts: int32 [cells], the place in the table of each target piece with each source piece of its pair, and
                int64, where the cells of each target piece begin.
        """
        shares = np.zeros(len(self._keys))
        for places, starts in parts:
            values = self._table[places]
            values /= np.repeat(np.add.reduceat(values, starts), np.diff(starts, append=len(values)))
            shares += np.bincount(places, values, len(shares))
        sources = self._keys // self._num_targets
        return shares / np.bincount(sources, shares)[sources]

    def probability(self, target: int, source: int) -> float:
        """Returns t(target | source); 0 if no pair has both."""
        key = source * self._num_targets + target
        place = int(np.searchsorted(self._keys, key))
        return float(self._table[place]) if place < len(self._keys) and self._keys[place] == key else 0.0

    def best(self, number: int) -> np.ndarray:
        """Returns the likeliest target pieces of each source piece, int32 [V, number], padded with 0.

        Of equally likely ones, those of lower ids come first.
        """
        sources, targets = np.divmod(self._keys, self._num_targets)
        order = np.lexsort((targets, -self._table, sources))
        sources, targets = sources[order], targets[order]
        ranks = np.arange(len(sources)) - np.searchsorted(sources, sources)
        found = np.full((self._num_sources, number), PAD, np.int32)
        chosen = ranks < number
        found[sources[chosen], ranks[chosen]] = targets[chosen]
        found[NONE] = PAD
        return found

    def _cells(self, split: TokenSplit, part: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The target pieces of some pairs, their keys with each source piece, and where those of each target begin."""
        targets, lengths = _read(split.target, part)
        sources, widths = _read(split.source, part, last=NONE)
        number = np.repeat(widths, lengths)  # of source pieces that each target piece has
        starts = np.cumsum(number) - number
        places = np.arange(number.sum()) + np.repeat(np.repeat(np.cumsum(widths) - widths, lengths) - starts, number)
        return targets, sources[places] * self._num_targets + np.repeat(targets, number), starts


def _read(tokens: Tokens, pairs: np.ndarray, last: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The ids of some sequences, end to end, and their lengths, int64; without end symbols, or with `last` for them."""
    local = isinstance(tokens.data, np.ndarray)
    ids = (tokens.take(pairs) if local else np.asarray(tokens.subset(pairs).data)).astype(np.int64)
    tokens.check(ids)
    lengths = tokens.lengths[pairs].astype(np.int64)
    ends = np.cumsum(lengths) - 1
    if last is None:
        return np.delete(ids, ends), lengths - 1
    ids[ends] = last
    return ids, lengths
