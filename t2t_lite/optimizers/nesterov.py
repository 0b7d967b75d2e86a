"""Nesterov's accelerated gradient (Sutskever et al., 2013), as fairseq's nag has it."""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from t2t_lite import registry
from t2t_lite.optimizers.base import Optimizer


@registry.register_optimizer
class Nesterov(Optimizer):
    """m = momentum * m + gradient; variable -= rate * (gradient + momentum * m).

    This is Sutskever's form, velocity = momentum * velocity - rate * gradient(variable + momentum * velocity), written
    for the point at which the gradient is taken, with velocity = -rate * m. As m does not contain the rate, a change of
    the rate scales the velocity, as fairseq's `lr_correct` does.

    Args:
        variables: as for Optimizer.
        momentum: 0.99 in "Convolutional Sequence to Sequence Learning" (Gehring et al., 2017).
    """

    def __init__(self, variables: Sequence[tf.Variable], momentum: float) -> None:
        super().__init__(variables)
        self.momentum = momentum

    def slot_shapes(self, shape: list[int]) -> dict[str, list[int]]:
        """One as large as the weight."""
        return {"m": shape}

    def update(self, weight: Any, slots: Mapping[str, Any], gradient: Any, *numbers: Any) -> tuple[Any, dict[str, Any]]:
        (rate,) = numbers
        m = self.momentum * slots["m"] + gradient
        return weight - rate * (gradient + self.momentum * m), {"m": m}
