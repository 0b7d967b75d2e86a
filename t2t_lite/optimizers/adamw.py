"""Adam with decoupled weight decay (Loshchilov and Hutter, 2019, algorithm 2)."""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from t2t_lite import registry
from t2t_lite.optimizers.adam import Adam
from t2t_lite.optimizers.base import read, write


@registry.register_optimizer
class Adamw(Adam):
    """Adam that also moves each weight towards zero, by learning rate * weight_decay of it; fairseq's adam.

    Args:
        variables, adam_beta1, adam_beta2, adam_epsilon: as for Adam.
        weight_decay: lambda; of all weights, biases and layer normalisation included, as in fairseq.
    """

    def __init__(
        self,
        variables: Sequence[tf.Variable],
        adam_beta1: float,
        adam_beta2: float,
        adam_epsilon: float,
        weight_decay: float,
    ) -> None:
        super().__init__(variables, adam_beta1, adam_beta2, adam_epsilon)
        self.weight_decay = weight_decay

    def numbers(self, learning_rate: float, step: int) -> tuple[float, ...]:
        """Adam's, and the share of a weight that is taken off."""
        return (*super().numbers(learning_rate, step), learning_rate * self.weight_decay)

    def update(self, weight: Any, slots: Mapping[str, Any], gradient: Any, *numbers: Any) -> tuple[Any, dict[str, Any]]:
        rate, share = numbers
        return super().update(weight * (1 - share), slots, gradient, rate)

    def apply(self, gradients: Sequence[Any], *numbers: Any, condition: Any = None) -> None:
        rate, share = numbers
        if condition is not None:
            share = tf.where(condition, share, 0.0)
        for variable in self.variables:
            write(variable, read(variable) * (1 - share))
        super().apply(gradients, rate, condition=condition)
