"""Positional encodings (section 3.5), sinusoidal or learned (Table 3, row (E)); tensor2tensor's and OpenNMT-tf's."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import keras
from keras import ops


def sinusoids(positions: Any, d_model: int) -> Any:
    """PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i + 1) = cos of the same; interleaved.

    float32 always: in bfloat16 position 257 would become 256.

    Args:
        positions: int [...].
        d_model: even.

    Returns:
        float32 [..., d_model].
    """
    rates = ops.exp(ops.arange(0, d_model, 2, dtype="float32") * (-math.log(10000.0) / d_model))
    angles = ops.cast(positions, "float32")[..., None] * rates
    pairs = ops.stack([ops.sin(angles), ops.cos(angles)], axis=-1)
    return ops.reshape(pairs, (*ops.shape(angles)[:-1], d_model))


def sines_then_cosines(positions: Any, d_model: int) -> Any:
    """tensor2tensor's: PE(pos, i) = sin(pos r_i), PE(pos, n + i) = cos(pos r_i), r_i = 10000^(-i / (n - 1)).

    n is d_model / 2. The slowest rate is 1 / 10000, and that of `sinusoids` is a little more, so no order of columns
    makes the two equal. Arguments and result are those of `sinusoids`.

    Source: get_timing_signal_1d of its layers/common_attention.py, at bafdc1b6.
    """
    count = d_model // 2
    rates = ops.exp(ops.arange(count, dtype="float32") * (-math.log(10000.0) / max(count - 1, 1)))
    angles = ops.cast(positions, "float32")[..., None] * rates
    return ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=-1)


def from_one(positions: Any, d_model: int) -> Any:
    """OpenNMT-tf's: `sines_then_cosines`, with positions counted from 1.

    Source: SinusoidalPositionEncoder of its layers/position.py, 2.32.0.
    """
    return sines_then_cosines(positions + 1, d_model)


SIGNALS = {"sinusoidal": sinusoids, "tensor2tensor": sines_then_cosines, "opennmt": from_one}


@keras.saving.register_keras_serializable("t2t_lite")
class LearnedPositions(keras.layers.Layer):
    """A trained vector for each position; positions past the table use its last row.

    Args:
        max_positions: rows of the table.
        d_model: columns.

    Call arguments:
        positions: int [...].

    Returns:
        float32 [..., d_model].
    """

    LOOKED_UP: ClassVar = ("table",)
    FLOAT32: ClassVar = ("table",)

    def __init__(self, max_positions: int, d_model: int, **kwargs: Any) -> None:
        super().__init__(autocast=False, **{"dtype": "float32", **kwargs})
        self.max_positions, self.d_model = max_positions, d_model

    def build(self, positions_shape: tuple[int | None, ...]) -> None:
        initializer = keras.initializers.RandomNormal(stddev=self.d_model**-0.5)
        self.table = self.add_weight(name="table", shape=(self.max_positions, self.d_model), initializer=initializer)

    def call(self, positions: Any) -> Any:
        return ops.cast(ops.take(self.table, ops.minimum(positions, self.max_positions - 1), axis=0), "float32")
