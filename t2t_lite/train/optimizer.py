"""Adam (Kingma and Ba, 2015; section 5.3), on the variables of one replica."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf


class Adam:
    """First and second moments for each variable; the step number is the caller's.

    `start` is the step at which the moments were last zero: 0, unless they were reset.

    The bias corrections enter the learning rate, which is the second form in section 2 of Kingma and Ba and what
    tensor2tensor used: variable -= rate * m / (sqrt(v) + epsilon), rate = lr * sqrt(1 - beta2^t) / (1 - beta1^t).

    Args:
        variables: tf.Variable, mirrored where several replicas train.
        beta1, beta2, epsilon: 0.9, 0.98 and 1e-9 in the paper.
    """

    def __init__(self, variables: Sequence[tf.Variable], beta1: float, beta2: float, epsilon: float) -> None:
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon
        self.start = 0
        self.variables = list(variables)
        self.m = [tf.Variable(tf.zeros(v.shape, v.dtype), trainable=False) for v in self.variables]
        self.v = [tf.Variable(tf.zeros(v.shape, v.dtype), trainable=False) for v in self.variables]

    def corrected_rate(self, learning_rate: float, step: int) -> float:
        """The learning rate of update number `step`, from 1, with both bias corrections in it."""
        t = step - self.start
        return learning_rate * math.sqrt(1 - self.beta2**t) / (1 - self.beta1**t)

    def reset(self, step: int) -> None:
        """Sets the moments to zero, as they are before the first update; `step` is the last one that was made."""
        for moment in (*self.m, *self.v):
            moment.assign(tf.zeros(moment.shape, moment.dtype))
        self.start = step

    def apply(self, gradients: Sequence[Any], rate: Any) -> None:
        """Updates this replica's copy of every variable in one pass each.

        Every replica must be given the same gradients: nothing is exchanged here, so that the update may stand
        inside a condition, which an update through the distribution strategy may not.

        Args:
            gradients: one per variable, all-reduced.
            rate: float32 scalar from `corrected_rate`.
        """
        self._apply(gradients, rate, self.beta1, self.beta2)

    def apply_if(self, condition: Any, gradients: Sequence[Any], rate: Any) -> None:
        """The same without a branch, on which a GPU would be waited for: all stays as it is unless `condition`.

        It makes one more pass over the gradients, which XLA makes together with the update.
        """
        rate, beta1, beta2 = (
            tf.where(condition, applied, kept) for applied, kept in ((rate, 0.0), (self.beta1, 1.0), (self.beta2, 1.0))
        )
        # A gradient that is not finite must not be multiplied, not even by zero.
        self._apply([tf.where(condition, g, tf.zeros_like(g)) for g in gradients], rate, beta1, beta2)

    def _apply(self, gradients: Sequence[Any], rate: Any, beta1: Any, beta2: Any) -> None:
        for variable, m, v, gradient in zip(self.variables, self.m, self.v, gradients, strict=True):
            tf.raw_ops.ResourceApplyAdam(
                var=variable.handle,
                m=m.handle,
                v=v.handle,
                beta1_power=0.0,  # the corrections are in `rate`
                beta2_power=0.0,
                lr=rate,
                beta1=beta1,
                beta2=beta2,
                epsilon=self.epsilon,
                grad=gradient,
            )
