"""What a beam search remembers of the positions before: self-attention's keys and values.

Hypotheses change places from step to step, and what was written of them never moves. Each position has K slots, one for
each hypothesis there was at that step, and `owners` says in which of them a hypothesis of now finds its own past.
Attention sees the slots of all K hypotheses of its sentence, and a bias hides those of the others: more products, but
no copy of what was read anyway.

Legend: B sentences, K beam size, H heads, C capacity in positions, N = C * K slots, E = d_k or d_v.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from t2t_lite.layers import masks

_BLOCK = 16  # positions by which the capacity grows: short outputs never pay for long ones
_UNWRITTEN = -1

State = dict[str, Any]  # "owners": int32 [B, K, C]; "slots": for each layer keys and values, [B, H, C * K * E]


class Past:
    """The view of one step: what `Transformer.step` asks of a memory.

    Args:
        state: from `empty` or the step before; has room for `index`.
        index: int scalar, the position of this step.

    Attributes:
        bias: float32 [B, 1, K, N]; shows each hypothesis its own past and present.
        positions: int32 [N], of the slots.
    """

    def __init__(self, state: State, index: Any) -> None:
        self._index, self._slots = index, list(state["slots"])
        batch, _, capacity = tf.unstack(tf.shape(state["owners"]))
        self._beam_size = beam_size = state["owners"].shape[1]
        places = tf.range(beam_size)
        self._owners = tf.where(tf.range(capacity) == index, places[:, None], state["owners"])
        mine = tf.equal(self._owners[:, :, :, None], places)
        self.bias = tf.reshape(masks.bias(mine), [batch, 1, beam_size, capacity * beam_size])
        self.positions = tf.repeat(tf.range(capacity), beam_size)

    def extend(self, layer: int, key: Any, value: Any) -> tuple[Any, Any]:
        """Writes this position's `key` and `value` [B, H, K, E] of one layer; returns all there are, [B, H, N, E]."""
        self._slots[layer] = tuple(
            _write(slots, self._index, tf.reshape(new, [-1, self._beam_size * new.shape[3]]))
            for slots, new in zip(self._slots[layer], (key, value), strict=True)
        )
        keys, values = (
            tf.reshape(slots, [-1, new.shape[1], tf.size(self.positions), new.shape[3]])
            for slots, new in zip(self._slots[layer], (key, value), strict=True)
        )
        return keys, values

    def after(self, parents: Any) -> State:
        """The state of the next step, in which hypothesis k continues hypothesis parents[:, k] (int32 [B, K])."""
        return {"owners": tf.gather(self._owners, parents, batch_dims=1), "slots": self._slots}


def empty(memory_caches: Sequence[tuple[Any, Any]], batch: Any, beam_size: int) -> State:
    """Nothing remembered. `memory_caches`: keys and values [B, H, S, E] of the layers' other attention, as wide."""

    def slots(like: Any) -> Any:
        return tf.zeros([batch, like.shape[1], 0], like.dtype)

    return {
        "owners": tf.zeros([batch, beam_size, 0], tf.int32),
        "slots": [(slots(key), slots(value)) for key, value in memory_caches],
    }


def capacity(state: State) -> Any:
    """C, int32 scalar."""
    return tf.shape(state["owners"])[2]


def grown(state: State, memory_caches: Sequence[tuple[Any, Any]], longest: Any) -> State:
    """With room for a block of positions more, `longest` at most; `memory_caches` as for `empty`."""
    positions = tf.minimum(_BLOCK, longest - capacity(state))
    places = positions * state["owners"].shape[1]

    def more(slots: Any, like: Any) -> Any:
        return tf.pad(slots, [[0, 0], [0, 0], [0, places * like.shape[3]]])

    return {
        "owners": tf.pad(state["owners"], [[0, 0], [0, 0], [0, positions]], constant_values=_UNWRITTEN),
        "slots": tf.nest.map_structure(more, state["slots"], list(memory_caches)),
    }


def _write(slots: Any, index: Any, new: Any) -> Any:
    """In place, as nothing else holds the buffer; over two axes, because each one more makes it slower."""
    width = new.shape[1]
    written = tf.raw_ops.TensorStridedSliceUpdate(
        input=tf.reshape(slots, [-1, tf.shape(slots)[2]]),
        begin=[0, index * width],
        end=[0, (index + 1) * width],
        strides=[1, 1],
        value=new,
        begin_mask=0b01,  # all of the first axis
        end_mask=0b01,
    )
    return tf.reshape(written, tf.shape(slots))
