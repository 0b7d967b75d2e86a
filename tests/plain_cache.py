"""A plain form of `t2t_lite.ops.kv_cache` for hypotheses that stay in their places, on any backend of Keras."""

from __future__ import annotations

from typing import Any

import numpy as np
from keras import ops

from t2t_lite.layers import masks
from t2t_lite.layers.scaled_dot_product import scaled_dot_product


class PlainCache:
    """Keeps all keys and values in lists.

    The first slot is hidden, like slots that are not yet written. After it, each position has `beam_size` slots.

    Args:
        memory: each layer's keys and values of cross-attention.
        memory_bias: float32 [B, 1, 1, S].
    """

    def __init__(self, beam_size: int, memory: Any, memory_bias: Any) -> None:
        self._beam_size, self.memory_bias = beam_size, memory_bias
        self.layers = [_PlainLayer(pair) for pair in memory]

    def at(self, index: int) -> PlainCache:
        """Sets the cache to one step and returns it."""
        places = np.arange(self._beam_size)
        owners = np.concatenate([[-1], np.tile(places, index + 1)])
        self.bias = masks.bias((owners[None, :] == places[:, None])[None, None])
        self.positions = np.concatenate([[0], np.repeat(np.arange(index + 1), self._beam_size)])
        for layer in self.layers:
            layer.position, layer.distances = index, self.positions[None] - index
        return self


class _PlainLayer:
    def __init__(self, memory: Any) -> None:
        self.memory = memory
        self._keys: list[Any] = []
        self._values: list[Any] = []

    def update(self, key: Any, value: Any) -> tuple[Any, Any]:
        for kept, new in ((self._keys, ops.swapaxes(key, 1, 2)), (self._values, ops.swapaxes(value, 1, 2))):
            kept += [new] if kept else [ops.zeros_like(new[:, :, :1]), new]
        return ops.concatenate(self._keys, axis=2), ops.concatenate(self._values, axis=2)

    def attend(self, query: Any, key: Any, value: Any, bias: Any) -> Any:
        heads = ops.swapaxes(scaled_dot_product(ops.swapaxes(query, 1, 2), key, value, bias), 1, 2)
        return ops.reshape(heads, (*heads.shape[:2], heads.shape[2] * heads.shape[3]))
