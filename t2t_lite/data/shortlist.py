"""Makes the shortlist of a run from its training pairs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from t2t_lite.data.store import Store
from t2t_lite.data.word_model import WordModel
from t2t_lite.text.shortlist import Shortlist, copies

ITERATIONS = 5


def choose_pairs(number: int, most: int) -> np.ndarray:
    """Returns all of `number` pairs, or `most` of them, evenly spaced; int64, ascending."""
    return np.arange(number) if number <= most else np.arange(most, dtype=np.int64) * number // most


def make_shortlist(
    store: Store, pairs: np.ndarray, *, best: int, first: int, progress: Callable[[int], None] = lambda pairs: None
) -> Shortlist:
    """Returns the shortlist of prepared data.

    A source piece stands for the `best` target pieces that IBM Model 1 finds likeliest, and for the one of the same
    text, if the target vocabulary has it. The `first` most frequent target pieces may be in any output.

    Args:
        pairs: the training pairs that are read, as `choose_pairs` gives them.
        progress: as for `WordModel`, with 5 iterations.
    """
    model = WordModel(store.split("train"), pairs, ITERATIONS, progress)
    of_piece = np.column_stack([copies(store.source_vocabulary, store.target_vocabulary), model.best(best)])
    frequent = np.argsort(-model.targets, kind="stable")[:first]
    return Shortlist(of_piece.astype(np.int32), frequent[model.targets[frequent] > 0].astype(np.int32))
