"""Dropout whose mask is a function of a seed, not of the device or of what ran before."""

from __future__ import annotations

import abc
from typing import Any

import keras
from keras import ops

# Odd, so that multiplying by it modulo 2^32 loses nothing.
_MULTIPLIER = 1000003
_LEVELS = 2**24  # a power of two, so that all are equally likely


def fold_in(seed: Any, index: int | Any) -> Any:
    """Returns the seed of part number `index`, derived from the seed of the whole.

    Args:
        seed: int32 [2], a `Seed`, or None for no dropout.
        index: int or int32 scalar >= 0.

    Returns:
        A seed of the same type as `seed`.
    """
    if seed is None:
        return None
    if isinstance(seed, Seed):
        return seed.replaced(fold_in(seed.values, index))
    return ops.stack([seed[0], seed[1] * _MULTIPLIER + index + 1])


class Seed(abc.ABC):
    """A seed whose masks are not drawn directly from its `values`, int32 [2]."""

    values: Any

    @abc.abstractmethod
    def replaced(self, values: Any) -> Seed:
        """Returns the same kind of seed with other values."""

    @abc.abstractmethod
    def integers(self, like: Any, levels: int, axis: int) -> Any:
        """Returns int32 in [0, levels), all equally likely, in the shape of `like`.

        Args:
            like: an array.
            levels: a power of two.
            axis: the axis of `like` that holds the batch's rows.
        """


class _GivenSeed(keras.random.SeedGenerator):
    """Seed generator that passes a tensor to keras.random, which takes only ints and SeedGenerators."""

    def __init__(self, seed: Any) -> None:  # no super().__init__: it would create a variable
        self._seed = seed

    def next(self, ordered: bool = True) -> Any:
        return self._seed


def random_integers(like: Any, levels: int, seed: Any, axis: int = 0) -> Any:
    """Returns int32 in [0, levels) in the shape of `like`; a function of the seed alone.

    It draws integers because XLA makes other floats from the same bits than TensorFlow's own kernels do: floats would
    depend on `jit` (tensorflow/tensorflow#121243).

    Args:
        levels: a power of two.
        seed: int32 [2], or a `Seed`.
        axis: the axis of `like` that holds the batch's rows.
    """
    if isinstance(seed, Seed):
        return seed.integers(like, levels, axis)
    given = _GivenSeed(ops.cast(seed, "uint32"))
    return keras.random.randint(ops.shape(like), 0, levels, dtype="int32", seed=given)


class Dropout(keras.layers.Layer):
    """Sets a share `rate` of the elements to 0 and divides the others by 1 - rate (section 5.4).

    Keras' own layer draws the same mask on every replica and cannot be given a mask to draw; here equal seeds
    give equal masks, wherever they are drawn.

    Args:
        rate: P_drop, in [0, 1).

    Call arguments:
        x: float [...].
        seed: int32 [2], a `Seed`, or None for inference.
        axis: the axis of x that holds the batch's rows.
    """

    def __init__(self, rate: float, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.rate = rate

    def call(self, x: Any, seed: Any = None, axis: int = 0) -> Any:
        if seed is None or self.rate == 0:
            return x
        draw = random_integers(x, _LEVELS, seed, axis)
        scale = ops.cast(1 / (1 - self.rate), x.dtype)
        return x * (ops.cast(draw >= round(self.rate * _LEVELS), x.dtype) * scale)
