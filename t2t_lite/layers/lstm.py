"""A layer of long short-term memory (Hochreiter and Schmidhuber, 1997)."""

from __future__ import annotations

from typing import Any, ClassVar

import keras
from keras import ops

from t2t_lite.layers.dot import dot


def lstm_cell(gates: Any, c: Any) -> tuple[Any, Any]:
    """The equations of one position; all in float32.

    c' = sigmoid(f + 1) c + sigmoid(i) tanh(g); h' = sigmoid(o) tanh(c')

    The 1 makes a cell remember when training begins (Jozefowicz et al., 2015).

    Args:
        gates: i, f, g and o side by side, [..., 4 units].
        c: the cell before, [..., units].

    Returns:
        (h', c').
    """
    i, f, g, o = ops.split(gates, 4, axis=-1)
    c = ops.sigmoid(f + 1) * c + ops.sigmoid(i) * ops.tanh(g)
    return ops.sigmoid(o) * ops.tanh(c), c


class Lstm(keras.layers.Layer):
    """One layer over all positions of a sentence, or over one: [i f g o] = W x + U h + b, then `lstm_cell`.

    A state is (h, c), float32 [B, K, units] each; K = 1 but for the hypotheses of a search. Only products are made in
    the layer's precision.

    Args:
        units: size of h and of c.

    Call arguments:
        x: [B, T, I].
        state: before the first position; None: zeros.
        real: bool [B, T]; a position where it is False leaves the state as it was. None: all are real.

    Returns:
        h of all positions [B, T, units], in the layer's precision; and the state after the last.
    """

    KERNELS: ClassVar = {"kernel": "IO", "recurrent_kernel": "IO"}

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.units = units

    def build(self, x_shape: tuple[int | None, ...]) -> None:
        shape = (x_shape[-1], 4 * self.units)
        self.kernel = self.add_weight(name="kernel", shape=shape, initializer="glorot_uniform")
        self.recurrent_kernel = self.add_weight(
            name="recurrent_kernel", shape=(self.units, 4 * self.units), initializer="orthogonal"
        )
        self.bias = self.add_weight(name="bias", shape=(4 * self.units,), initializer="zeros")

    def call(self, x: Any, state: Any = None, real: Any = None) -> tuple[Any, Any]:
        inputs = self.of_input(x)
        zeros = ops.zeros_like(inputs[:, :1, : self.units], dtype="float32")
        if real is None:
            real = ops.ones_like(x[:, :, 0], dtype="bool")

        def position(before: Any, now: Any) -> tuple[Any, Any]:
            of_input, is_real = now
            after = [
                ops.where(is_real, new, old) for new, old in zip(self.after(of_input, before), before, strict=True)
            ]
            return after, after

        by_position = ops.transpose(inputs, (1, 0, 2))[:, :, None], ops.transpose(real)[:, :, None, None]
        state, (h, _) = ops.scan(position, list(state or (zeros, zeros)), by_position)
        return ops.cast(ops.transpose(h[:, :, 0], (1, 0, 2)), self.compute_dtype), tuple(state)

    def of_input(self, x: Any) -> Any:
        """W x + b, which no state is needed for. [..., I] -> [..., 4 units]."""
        x = ops.cast(x, self.compute_dtype)
        return dot(x, self.kernel) + ops.cast(self.bias, x.dtype)

    def after(self, of_input: Any, state: Any) -> tuple[Any, Any]:
        """Returns the state after one position.

        Args:
            of_input: W x + b and what else is to be added, [B, K, 4 units].
            state: before it.
        """
        h, c = state
        gates = of_input + dot(ops.cast(h, self.compute_dtype), self.recurrent_kernel)
        return lstm_cell(ops.cast(gates, "float32"), c)
