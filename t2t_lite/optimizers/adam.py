"""Adam (Kingma and Ba, 2015; section 5.3)."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from t2t_lite import registry
from t2t_lite.optimizers.base import Optimizer


@registry.register_optimizer
class Adam(Optimizer):
    """First and second moments for each variable.

    The bias corrections enter the learning rate, which is the second form in section 2 of Kingma and Ba and what
    tensor2tensor used: variable -= rate * m / (sqrt(v) + epsilon), rate = lr * sqrt(1 - beta2^t) / (1 - beta1^t).

    Args:
        variables: as for Optimizer.
        adam_beta1, adam_beta2, adam_epsilon: 0.9, 0.98 and 1e-9 in the paper.
    """

    def __init__(
        self, variables: Sequence[tf.Variable], adam_beta1: float, adam_beta2: float, adam_epsilon: float
    ) -> None:
        super().__init__(variables)
        self.beta1, self.beta2, self.epsilon = adam_beta1, adam_beta2, adam_epsilon

    @property
    def m(self) -> list[tf.Variable]:
        """The means of the gradients."""
        return [slots["m"] for slots in self.slots]

    @property
    def v(self) -> list[tf.Variable]:
        """The means of the squared gradients."""
        return [slots["v"] for slots in self.slots]

    def slot_shapes(self, shape: list[int]) -> dict[str, list[int]]:
        """Two as large as the weight."""
        return {"m": shape, "v": shape}

    def numbers(self, learning_rate: float, step: int) -> tuple[float, ...]:
        """The learning rate of update number `step`, from 1, with both bias corrections in it."""
        t = step - self.start
        return (learning_rate * math.sqrt(1 - self.beta2**t) / (1 - self.beta1**t),)

    def update(self, weight: Any, slots: Mapping[str, Any], gradient: Any, *numbers: Any) -> tuple[Any, dict[str, Any]]:
        """The rule; TensorFlow's kernel, which `apply` calls, computes the same in one pass."""
        (rate,) = numbers
        m = self.beta1 * slots["m"] + (1 - self.beta1) * gradient
        v = self.beta2 * slots["v"] + (1 - self.beta2) * gradient**2
        return weight - rate * m / (tf.sqrt(v) + self.epsilon), {"m": m, "v": v}

    def apply(self, gradients: Sequence[Any], *numbers: Any, condition: Any = None) -> None:
        """As in Optimizer, in one pass over each variable; a condition adds one, which XLA combines with the update."""
        rate, beta1, beta2 = *numbers, self.beta1, self.beta2
        if condition is not None:
            wanted = zip((rate, beta1, beta2), (0.0, 1.0, 1.0), strict=True)
            rate, beta1, beta2 = (tf.where(condition, applied, kept) for applied, kept in wanted)
            # A gradient that is not finite must not be multiplied, not even by zero.
            gradients = [tf.where(condition, g, tf.zeros_like(g)) for g in gradients]
        for variable, slots, gradient in zip(self.variables, self.slots, gradients, strict=True):
            tf.raw_ops.ResourceApplyAdam(
                var=variable.handle,
                m=slots["m"].handle,
                v=slots["v"].handle,
                beta1_power=0.0,  # the corrections are in `rate`
                beta2_power=0.0,
                lr=rate,
                beta1=beta1,
                beta2=beta2,
                epsilon=self.epsilon,
                grad=gradient,
            )
