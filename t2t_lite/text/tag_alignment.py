"""Alignment of the tags that a parser wrote with the words of its sentence: which tag belongs to which word.

The order stays. A tag may belong to no word, and a word may have no tag; each costs SKIP. A tag on a word costs what
the model of tags says. The cheapest alignment is found by dynamic programming over the tags, within a band: after j
tags the words that have passed are j - BAND to j + BAND. Of equally cheap alignments, one that skips late is taken.

export/alignment_ops.py does the same in a graph, to the last tie.

Legend: N words, M tags, D = 2 BAND + 1 places of the band.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from t2t_lite.text.tag_model import SKIP, TagModel

BAND = 64
RANKS = 256  # costs are multiplied by it, so that the rank of a choice decides between equal ones; more than D + 1
FAR = 2**48  # a cost that no alignment has


def align(tags: Sequence[str], words: Sequence[str], model: TagModel) -> list[int | None]:
    """Returns for each tag the number of its word; None: the tag belongs to none.

    If there are as many tags as words, the i-th tag is the i-th word's unless another alignment is cheaper by more than
    SKIP. Tags after the first N + BAND have no word.
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
