"""A layer of long short-term memory (Hochreiter and Schmidhuber, 1997)."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import keras
from keras import ops

from t2t_lite.layers.matmul import matmul


class LstmSize(NamedTuple):
    """Sizes of a layer: of its inputs, of c, and of h if h is projected (otherwise 0)."""

    inputs: int
    units: int
    projection: int = 0

    @property
    def products(self) -> int:
        """Multiply-adds for a position: W x, U h and the projection, but not what else is added to W x."""
        return 4 * self.units * (self.inputs + (self.projection or self.units)) + self.units * self.projection


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


def backwards(x: Any, lengths: Any) -> Any:
    """Returns x [B, T, I] with the first `lengths` positions of each row in reverse; padding stays in place."""
    at, ends = ops.arange(ops.shape(x)[1])[None], ops.cast(lengths, "int32")[:, None]
    places = ops.where(at < ends, ends - 1 - at, at) + ops.shape(x)[1] * ops.arange(ops.shape(x)[0])[:, None]
    return ops.reshape(ops.take(ops.reshape(x, (-1, x.shape[-1])), places, axis=0), ops.shape(x))


@keras.saving.register_keras_serializable("t2t_lite")
class Lstm(keras.layers.Layer):
    """One layer over one position or all positions of a sentence: [i f g o] = W x + U h + b, then `lstm_cell`.

    A state is (h, c), float32 [B, K, outputs] and [B, K, units]. K is the number of hypotheses in a search, otherwise
    1. Only products are computed in the layer's precision.

    Args:
        units: size of c.
        reverse: read from the end of each sentence to its beginning.

    Attributes:
        outputs: size of h, here `units`.

    Call arguments:
        x: [B, T, I].
        state: before the first position; None: zeros.
        lengths: int [B], positions before the padding. None: no state is returned; not allowed with `reverse`.

    Returns:
        h of all positions [B, T, outputs], in the layer's precision; and the state after the last position read, not
        counting padding.
    """

    MATRICES: ClassVar = {"kernel": "IO", "recurrent_kernel": "IO"}

    def __init__(self, units: int, reverse: bool = False, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.units, self.outputs, self.reverse = units, units, reverse

    def build(self, x_shape: tuple[int | None, ...]) -> None:
        shape = (x_shape[-1], 4 * self.units)
        self.kernel = self.add_weight(name="kernel", shape=shape, initializer="glorot_uniform")
        self.recurrent_kernel = self.add_weight(
            name="recurrent_kernel", shape=(self.outputs, 4 * self.units), initializer="orthogonal"
        )
        self.bias = self.add_weight(name="bias", shape=(4 * self.units,), initializer="zeros")

    def call(self, x: Any, state: Any = None, lengths: Any = None) -> tuple[Any, Any]:
        if self.reverse:
            x = backwards(x, lengths)
        by_position = ops.transpose(self.of_input(x), (1, 0, 2))[:, :, None]  # [T, B, 1, 4 units]
        if state is None:
            zeros = ops.zeros_like(by_position[0, :, :, :1], dtype="float32")
            state = ops.repeat(zeros, self.outputs, axis=-1), ops.repeat(zeros, self.units, axis=-1)

        def position(before: Any, of_input: Any) -> tuple[Any, Any]:
            after = list(self.after(of_input, before))
            return after, after

        # ops.scan: outputs have the structure of the state, and only one array is scanned (two of unknown lengths
        # raise an AttributeError in Keras 3.15).
        _, states = ops.scan(position, list(state), by_position)
        h, c = (ops.transpose(values[:, :, 0], (1, 0, 2)) for values in states)
        outputs = ops.cast(h, self.compute_dtype)
        if lengths is None:
            return outputs, None
        if self.reverse:
            outputs = backwards(outputs, lengths)
        last = ops.maximum(lengths, 1)[:, None, None] - 1
        return outputs, tuple(ops.take_along_axis(values, last, axis=1) for values in (h, c))

    def of_input(self, x: Any) -> Any:
        """Returns W x + b, which needs no state. [..., I] -> [..., 4 units]."""
        x = ops.cast(x, self.compute_dtype)
        return matmul(x, self.kernel, self.bias)

    def after(self, of_input: Any, state: Any) -> tuple[Any, Any]:
        """Returns the state after one position.

        Args:
            of_input: W x + b and whatever else is added to it, [B, K, 4 units].
            state: the state before this position.
        """
        h, c = state
        gates = of_input + matmul(ops.cast(h, self.compute_dtype), self.recurrent_kernel)
        return lstm_cell(ops.cast(gates, "float32"), c)
