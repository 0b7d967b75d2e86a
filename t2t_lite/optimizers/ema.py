"""Exponential moving average of the weights (Polyak and Juditsky, 1992), beside them on the devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from t2t_lite.optimizers.base import read, write


class Ema:
    """The average a <- d a + (1 - d) w after each update that is applied; the first one sets a to w.

    After n updates d is min(decay, (1 + n) / (10 + n)), as in tf.train.ExponentialMovingAverage, so that the first
    weights do not last.

    Args:
        decay: the largest d, below 1.
        variables: the weights w, in the optimizer's order; made under the strategy, as those of this class.

    Attributes:
        averages: a of each weight, float32.
        updates: n, float32.
    """

    def __init__(self, decay: float, variables: Sequence[tf.Variable]) -> None:
        self._decay, self._variables = decay, variables
        self.averages = [tf.Variable(tf.zeros(v.shape, v.dtype), trainable=False) for v in variables]
        self.updates = tf.Variable(0.0, trainable=False)

    def update(self, condition: Any = None) -> None:
        """Follows an update of this replica's weights, if `condition` holds."""
        n = read(self.updates)
        decay = tf.where(n > 0, tf.minimum(self._decay, (1 + n) / (10 + n)), 0.0)
        changes = [(self.updates, n, n + 1)]
        for variable, average in zip(self._variables, self.averages, strict=True):
            old = read(average)
            changes.append((average, old, decay * old + (1 - decay) * read(variable)))
        for variable, old, new in changes:
            write(variable, new if condition is None else tf.where(condition, new, old))
