"""Passes over an output with dropout: how far its probability depends on which units the model has left.

Fomicheva et al., 2020, section 3.2 (D-TP and D-Var), after Gal and Ghahramani, 2016.

Legend: N passes, S source length, T target length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from t2t_lite.decoding.piece_scores import piece_log_probs
from t2t_lite.decoding.sized_graph import SizedGraph
from t2t_lite.errors import UsageError
from t2t_lite.layers.dropout import Dropout

_SEED = (1, 0)  # that of a recipe is its own: no mask was that of a training


class DropoutPasses:
    """Mean log-probabilities of an output's pieces, one for each pass with masks of its own.

    The passes are the rows of a batch, so their masks do not depend on what else is scored, and repeat.

    Args:
        model: a `models.base.Model`.
        number: N, at least 2.
        jit: XLA compiles the graph.

    Raises:
        UsageError: the model has no dropout.
    """

    def __init__(self, model: Any, number: int, *, jit: bool) -> None:
        self.number = number
        layers = [layer for member in model.members().values() for layer in member._flatten_layers()]
        if not any(isinstance(layer, Dropout) and layer.rate > 0 for layer in layers):
            raise UsageError("dropout_passes needs a model with dropout, and the recipe of this one has none.")

        def means(source: Any, target: Any, first: Any, jit: bool = False) -> tuple[Any]:
            values = piece_log_probs(model, source, target, tf.stack([*_SEED, first]))
            pieces = tf.math.count_nonzero(target, axis=1, dtype=tf.int32)
            return (tf.reduce_sum(values, 1) / tf.cast(tf.maximum(pieces, 1), tf.float32),)

        ids = tf.TensorSpec([None, None], tf.int32)
        what = f"the passes of a {type(model).__name__} with dropout"
        self._graph = SizedGraph(means, [ids, ids, tf.TensorSpec([], tf.int32)], jit=jit, what=what)

    def run(self, source: Sequence[int], target: Sequence[int], tokens: int) -> np.ndarray:
        """Returns the mean log-probability of the pieces in each pass, float32 [N].

        Args:
            source: the pieces of the line, ended by 1.
            target: those of the output, at least one.
            tokens: how many there may be in a batch.
        """
        rows = min(max(self._graph.most_rows(tokens, max(len(source), len(target))), 1), self.number)
        found = []
        for first in range(0, self.number, rows):
            number = min(rows, self.number - first)
            batch = (np.tile(np.array(side, np.int32), (number, 1)) for side in (source, target))
            found += self._graph(*batch, np.int32(first), tokens=tokens)
        return np.concatenate(found)
