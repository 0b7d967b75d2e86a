"""KV cache of a search of fixed sizes, as XLA needs them: there is room for all steps from the start.

As in `ops.kv_cache`, hypotheses share slots, nothing is copied when they change places, and `owner` says which slots
are a hypothesis' own past. But no slot is given to another step: slot K t + k is hypothesis k's of step t.

Legend: B sentences, K beam size, H heads, N = K x steps slots, E = d_k or d_v.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keras import ops

from t2t_lite.layers import masks
from t2t_lite.layers.scaled_dot_product import scaled_dot_product

# "owner": bool [B, K, N]; "slots": for each layer keys and values, [B, H, N, E].
State = dict[str, Any]


class KVCache:
    """As `kv_cache.KVCache`; `positions` is int32 [1, 1, 1, N], and no state is full."""

    def __init__(self, state: State, index: Any, memory: Sequence[tuple[Any, Any]], memory_bias: Any) -> None:
        beam_size, slots = state["owner"].shape[1:]
        places = ops.arange(slots)
        now = ops.equal(places - index * beam_size, ops.arange(beam_size)[:, None])
        self._owner = ops.logical_or(state["owner"], now)
        self.bias, self.memory_bias = masks.bias(self._owner)[:, None], memory_bias
        positions = places // beam_size
        self.positions = positions[None, None, None]
        pairs = zip(state["slots"], memory, strict=True)
        self.layers = [
            LayerCache(slots, index * beam_size, of_memory, index, (positions - index)[None])
            for slots, of_memory in pairs
        ]

    def advance(self) -> State:
        return {"owner": self._owner, "slots": [layer.slots for layer in self.layers]}


class LayerCache:
    """As `kv_cache.LayerCache`; `distances` is int32 [1, N]."""

    def __init__(
        self, slots: tuple[Any, Any], first: Any, memory: tuple[Any, Any], position: Any, distances: Any
    ) -> None:
        self.slots, self.memory, self._first = slots, memory, first
        self.position, self.distances = position, distances

    def update(self, key: Any, value: Any) -> tuple[Any, Any]:
        keys, values = self.slots
        self.slots = self._write(keys, key), self._write(values, value)
        return self.slots

    def _write(self, slots: Any, new: Any) -> Any:
        return ops.slice_update(slots, (0, 0, self._first, 0), ops.transpose(new, (0, 2, 1, 3)))

    def attend(self, query: Any, key: Any, value: Any, bias: Any) -> Any:
        heads = scaled_dot_product(ops.transpose(query, (0, 2, 1, 3)), key, value, bias)
        heads = ops.transpose(heads, (0, 2, 1, 3))
        return ops.reshape(heads, (*heads.shape[:2], heads.shape[2] * heads.shape[3]))


def init(memory: Sequence[tuple[Any, Any]], batch: int, beam_size: int, steps: int) -> State:
    """Returns an empty cache with room for `steps` steps; `memory` as for `kv_cache.init`."""

    def empty(like: Any) -> Any:
        return ops.zeros((batch, like.shape[1], beam_size * steps, like.shape[3]), like.dtype)

    return {
        "owner": ops.zeros((batch, beam_size, beam_size * steps), "bool"),
        "slots": [tuple(empty(like) for like in keys_values) for keys_values in memory],
    }
