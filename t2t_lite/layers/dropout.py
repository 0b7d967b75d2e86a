"""Dropout whose mask depends on (seed, row of the global batch, position, channel) alone.

So it does not matter how the rows of a batch are split over devices, accumulation steps and processors, nor how far
they are padded. A counter-based generator such as Philox would also do for rows, but not for other padding; under XLA
it takes hundreds of times longer on CPUs, and hundreds of kernels of its own on GPUs.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

# Odd, so that multiplying by it modulo 2^32 loses nothing.
_MULTIPLIER = 1000003
_SPREAD = np.uint32(0x9E3779B1)
_FACTORS = (np.uint32(0x7FEB352D), np.uint32(0x846CA68B))


def fold_in(seed: Any, index: int | Any) -> Any:
    """Returns the seed of a model's part number `index`, derived from the seed of the whole.

    Args:
        seed: int32 [3], or None for no dropout.
        index: int or int32 scalar >= 0.
    """
    if seed is None:
        return None
    first, second, row = ops.unstack(seed)  # a third of the nodes that indexing would add to a graph
    return ops.stack([first, second * _MULTIPLIER + index + 1, row])


def second_pass(seed: Any) -> Any:
    """Returns the seed, int32 [3], of a second pass over the same rows: its first word is negative, no recipe's is."""
    first, second, row = ops.unstack(seed)
    return ops.stack([-1 - first, second, row])


def draw_seed() -> Any:
    """Returns a seed by `keras.utils.set_random_seed`, int32 [3], for a batch that is not split."""
    return ops.append(keras.random.randint((2,), 0, 2**31 - 1, "int32"), 0)


def random_bits(like: Any, seed: Any, axis: int = 0) -> Any:
    """Returns uint32 in the shape of `like`: a hash of the seed and of each element's index on each axis.

    The same bits come from TensorFlow's kernels, XLA and JAX, as all operations are on integers.

    Args:
        seed: int32 [3]: two words, and the number of the first row in the global batch.
        axis: the axis of `like` that holds the batch's rows.
    """
    first, second, row = ops.unstack(ops.cast(seed, "uint32"))
    bits = _mix(_mix(first) ^ second)
    for number, size in enumerate(ops.shape(like)):
        index = ops.cast(ops.arange(size, dtype="int32"), "uint32")
        if number == axis:
            index = index + row
        bits = _mix(bits[..., None] + index * _SPREAD)
    return bits


def _mix(x: Any) -> Any:
    """A hash of uint32, one to one: lowbias32 (Chris Wellons, "Prospecting for Hash Functions", 2018)."""
    x = (x ^ ops.right_shift(x, np.uint32(16))) * _FACTORS[0]
    x = (x ^ ops.right_shift(x, np.uint32(15))) * _FACTORS[1]
    return x ^ ops.right_shift(x, np.uint32(16))


@keras.saving.register_keras_serializable("t2t_lite")
class Dropout(keras.layers.Layer):
    """Sets a share `rate` of the elements to 0 and divides the others by 1 - rate (section 5.4).

    Keras' own layer draws the same mask on every replica, and other masks for other splits of a batch.

    Args:
        rate: P_drop, in [0, 1).

    Call arguments:
        x: float [...].
        seed: int32 [3], see `random_bits`, or None for inference; in Keras' `fit` it is drawn.
        axis: the axis of x that holds the batch's rows.
    """

    def __init__(self, rate: float, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.rate = rate

    def call(self, x: Any, seed: Any = None, axis: int = 0, training: bool | None = None) -> Any:
        if self.rate == 0 or (seed is None and not training):
            return x
        seed = draw_seed() if seed is None else seed
        keep = random_bits(x, seed, axis) >= np.uint32(int(self.rate * 2**32))
        return x * (ops.cast(keep, x.dtype) * ops.cast(1 / (1 - self.rate), x.dtype))
