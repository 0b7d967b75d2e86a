"""Weights of zeros instead of random ones, for a model whose weights a checkpoint replaces at once.

Gain (benchmarks/README.md): `base` is built in 0.7 of the time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import keras
from keras import initializers, ops

_RANDOM = (initializers.RandomNormal, initializers.RandomUniform, initializers.VarianceScaling)  # and what derives


@contextlib.contextmanager
def zero_weights() -> Iterator[None]:
    """Lets Keras' random initializers give zeros, in all threads.

    They still take their seeds, so that later draws are the same.
    """

    def zeros(self: Any, shape: Any, dtype: Any = None) -> Any:
        return ops.zeros(shape, dtype or keras.config.floatx())

    usual = [kind.__call__ for kind in _RANDOM]
    try:
        for kind in _RANDOM:
            kind.__call__ = zeros
        yield
    finally:
        for kind, call in zip(_RANDOM, usual, strict=True):
            kind.__call__ = call
