"""Adafactor (Shazeer and Stern, 2018): it keeps only rows and columns of a matrix's second moments."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from t2t_lite import registry
from t2t_lite.optimizers.base import Optimizer

# Section 9 of the paper.
EPSILON_1 = 1e-30  # added to squared gradients
EPSILON_2 = 1e-3  # lower bound of the weight's size, to which its step is relative
CLIPPING = 1.0  # d, the largest root mean square of an update
DECAY = 0.8  # of the second moments: 1 - t^-0.8


@registry.register_optimizer
class Adafactor(Optimizer):
    """Algorithms 4 (matrices) and 5 (vectors): no momentum, clipped updates, steps relative to the weight's size.

    The schedule's learning rate is the relative step size rho_t; the paper's own, min(10^-6 t, t^-0.5), is
    schedule=inverse_sqrt,learning_rate=0.01,warmup_steps=10000. If a weight has more than two axes, the last two are
    treated as a matrix.
    """

    def slot_shapes(self, shape: list[int]) -> dict[str, list[int]]:
        """Means over columns and over rows; a vector keeps all of its numbers."""
        if len(shape) < 2:
            return {"v": shape}
        return {"rows": shape[:-1], "columns": [*shape[:-2], shape[-1]]}

    def numbers(self, learning_rate: float, step: int) -> tuple[float, float]:
        """rho_t and the decay of the second moments."""
        return learning_rate, 1 - float(max(step - self.start, 1)) ** -DECAY

    def update(self, weight: Any, slots: Mapping[str, Any], gradient: Any, *numbers: Any) -> tuple[Any, dict[str, Any]]:
        """The rule; each root is taken separately, as the product of rows and columns may be too small for float32."""
        relative_step, decay = numbers
        square = gradient**2 + EPSILON_1

        def average(name: str, values: Any) -> Any:
            return decay * slots[name] + (1 - decay) * values

        if "v" in slots:
            new = {"v": average("v", square)}
            step = gradient * tf.math.rsqrt(new["v"])
        else:
            rows, columns = (average(n, tf.reduce_mean(square, axis)) for n, axis in (("rows", -1), ("columns", -2)))
            new = {"rows": rows, "columns": columns}
            by_row = tf.math.rsqrt(rows) * tf.sqrt(tf.reduce_mean(rows, -1, keepdims=True))
            step = gradient * by_row[..., None] * tf.math.rsqrt(columns)[..., None, :]
        step /= tf.maximum(1.0, _rms(step) / CLIPPING)
        return weight - relative_step * tf.maximum(EPSILON_2, _rms(weight)) * step, new


def _rms(values: Any) -> Any:
    return tf.sqrt(tf.reduce_mean(values**2))
