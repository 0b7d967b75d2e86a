"""What `t2t_lite.ops.kv_cache` does, for hypotheses that stay in their places; on any backend of Keras."""

from __future__ import annotations

from typing import Any

import numpy as np
from keras import ops

from t2t_lite.layers import masks


class PlainCache:
    """Keeps all keys and values in lists.

    The first slot is hidden, as those that are not yet written are. After it come K for each position.
    """

    def __init__(self, beam_size: int) -> None:
        self._beam_size = beam_size
        self._kept: dict[int, tuple[list[Any], list[Any]]] = {}

    def at(self, index: int) -> PlainCache:
        """The view of one step."""
        places = np.arange(self._beam_size)
        owners = np.concatenate([[-1], np.tile(places, index + 1)])
        owner = owners[None, :] == places[:, None]
        self.bias = masks.bias(owner[None, None])
        self.positions = np.concatenate([[0], np.repeat(np.arange(index + 1), self._beam_size)])
        return self

    def update(self, layer: int, key: Any, value: Any) -> tuple[Any, Any]:
        key, value = ops.swapaxes(key, 1, 2), ops.swapaxes(value, 1, 2)
        hidden = [ops.zeros_like(key[:, :, :1])], [ops.zeros_like(value[:, :, :1])]
        keys, values = self._kept.setdefault(layer, hidden)
        keys.append(key)
        values.append(value)
        return ops.concatenate(keys, axis=2), ops.concatenate(values, axis=2)
