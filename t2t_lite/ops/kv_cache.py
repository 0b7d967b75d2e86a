"""KV cache of beam search: hypotheses share slots, and an ownership mask takes the place of reordering.

Hypotheses change places from step to step, but what was written for them never moves. Each step fills K slots, one for
each hypothesis of that step, and `owner` says which slots are a hypothesis' own past. Attention sees the slots of all
hypotheses of its sentence, and a bias hides those of the others, so nothing is copied when hypotheses change places.
When the slots are used up, those that no hypothesis looks at any more are dropped, and there is room again.

Gain (benchmarks/notebook.md): D1 takes 0.90 of the time; dropping slots gives 0.85.

Legend: B sentences, K beam size, H heads, N slots, E = d_k or d_v.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from t2t_lite.layers import masks
from t2t_lite.ops.step_attention import step_attention

_BLOCK = 16  # steps that new room is made for: short outputs never pay for long ones

# "count": int32 scalar, the slots in use, the same for all sentences; "owner": bool [B, K, N]; "positions":
# int32 [B, 1, N], of what is in the slots; "slots": for each layer keys and values, [B, H, N, E].
State = dict[str, Any]


class KVCache:
    """KV cache as one step of a search sees it.

    Args:
        state: from `init` or the step before; not `is_full`.
        index: int scalar, the position of this step.
        memory: each layer's keys [B, H, S, d_k] and values [B, H, S, d_v] of cross-attention.
        memory_bias: float32 [B, 1, 1, S].

    Attributes:
        layers: a `LayerCache` for each layer.
        bias: float32 [B, 1, K, N]; shows each hypothesis its own past and present.
        positions: int32 [B, 1, 1, N], of the slots.
        memory_bias: as given.
    """

    def __init__(self, state: State, index: Any, memory: Sequence[tuple[Any, Any]], memory_bias: Any) -> None:
        self._count = state["count"]
        beam_size = state["owner"].shape[1]
        capacity = tf.shape(state["owner"])[2]
        place = tf.range(capacity) - self._count
        self._owner = state["owner"] | tf.equal(place, tf.range(beam_size)[:, None])
        self._positions = tf.where((place >= 0) & (place < beam_size), index, state["positions"])
        self.bias = masks.bias(self._owner)[:, None]
        self.positions = self._positions[:, None]
        # The same values, but made by an operation inside the loop. TensorFlow 2.21's fusion of matmul and add for
        # oneDNN would read a bias that comes straight from outside at the wrong output of the loop's switch. The whole
        # search would then give empty arrays (it does so for models of one layer).
        self.memory_bias = tf.where(memory_bias < 0, memory_bias, 0.0)
        pairs = zip(state["slots"], memory, strict=True)
        distances = (self._positions - index)[:, 0]
        self.layers = [
            LayerCache(slots, self._count, capacity, of_memory, index, distances) for slots, of_memory in pairs
        ]

    def advance(self) -> State:
        """The state after this step, the hypotheses in their old order."""
        return {
            "count": self._count + self._owner.shape[1],
            "owner": self._owner,
            "positions": self._positions,
            "slots": [layer.slots for layer in self.layers],
        }


class LayerCache:
    """KV cache of one layer in one step, and the attention of few queries to it.

    Args:
        slots: keys [B, H, N, d_k] and values [B, H, N, d_v].
        first: int scalar, the slot of the first hypothesis.
        capacity: int scalar, N.
        memory: the layer's keys and values of cross-attention.
        position: int scalar, of this step.
        distances: int32 [B, N], the slots' positions minus that of this step.
    """

    def __init__(
        self,
        slots: tuple[Any, Any],
        first: Any,
        capacity: Any,
        memory: tuple[Any, Any],
        position: Any,
        distances: Any,
    ) -> None:
        self.slots, self.memory, self._place = slots, memory, (first, capacity)
        self.position, self.distances = position, distances

    def update(self, key: Any, value: Any) -> tuple[Any, Any]:
        """Writes this position's `key` and `value` [B, K, H, E]; returns all slots, [B, H, N, E]."""
        keys, values = self.slots
        self.slots = _write(keys, *self._place, key), _write(values, *self._place, value)
        return self.slots

    def attend(self, query: Any, key: Any, value: Any, bias: Any) -> Any:
        """As `step_attention`."""
        return step_attention(query, key, value, bias)


def init(memory: Sequence[tuple[Any, Any]], batch: Any, beam_size: int, steps: Any) -> State:
    """Returns an empty cache with room for `steps` steps, but at most for one block of them.

    `memory`: keys and values [B, H, S, E] of the layers' cross-attention. The cache has the same H and E.
    """
    capacity = _capacity(steps, beam_size)
    return {
        "count": tf.constant(0),
        "owner": tf.zeros([batch, beam_size, capacity], tf.bool),
        "positions": tf.zeros([batch, 1, capacity], tf.int32),
        "slots": [
            tuple(tf.zeros([batch, like.shape[1], capacity, like.shape[3]], like.dtype) for like in keys_values)
            for keys_values in memory
        ],
    }


def reorder(state: State, parents: Any) -> State:
    """Returns the state in which hypothesis k continues hypothesis parents[:, k] (int32 [B, K]); no slot is copied."""
    return {**state, "owner": tf.gather(state["owner"], parents, batch_dims=1)}


def is_full(state: State) -> Any:
    """Returns whether there is no room for another step, bool scalar."""
    return state["count"] >= tf.shape(state["owner"])[2]


def compact(state: State, steps: Any) -> State:
    """Returns a state without unused slots, with room for `steps` more steps, at most one block."""
    seen = tf.reduce_any(state["owner"], 1)
    count = tf.reduce_max(tf.math.count_nonzero(seen, 1, dtype=tf.int32))
    _, kept = tf.math.top_k(tf.cast(seen, tf.int32), count)  # in their old order; fewer than `count` may be seen
    room = [[0, 0], [0, 0], [0, _capacity(steps, state["owner"].shape[1])]]
    copied = tf.pad(kept, room[1:])  # new slots copy slot 0: they are masked until they are written
    return {
        "count": count,
        "owner": tf.pad(tf.gather(state["owner"], kept, axis=2, batch_dims=1), room),
        "positions": tf.pad(tf.gather(state["positions"], kept, axis=2, batch_dims=1), room),
        "slots": tf.nest.map_structure(lambda slots: tf.gather(slots, copied, axis=2, batch_dims=1), state["slots"]),
    }


def _capacity(steps: Any, beam_size: int) -> Any:
    return tf.minimum(_BLOCK, steps) * beam_size


def _write(slots: Any, first: Any, capacity: Any, new: Any) -> Any:
    """`slots` [B, H, capacity, E] with `new` [B, K, H, E] from slot `first` on; nothing else holds the buffer.

    TensorFlow's operation for this is slower with each additional axis, and copies number by number. So it is given two
    axes and, if the sizes divide evenly, numbers of 16 bytes.
    """
    beam_size, heads, size = new.shape[1:]
    number = slots.dtype if size * slots.dtype.size % tf.complex128.size else tf.complex128
    together = number.size // slots.dtype.size
    width = size // together

    def flat(x: Any, places: Any) -> Any:
        rows = tf.reshape(x, [-1, places * width] + [together] * (together > 1))
        return tf.bitcast(rows, number)

    # As integers: TensorFlow passes floats to oneDNN, which is slower if there is little to transpose.
    integer = tf.int32 if new.dtype.size == 4 else tf.int16
    new_BHKE = tf.transpose(tf.bitcast(new, integer), [0, 2, 1, 3])
    written = tf.raw_ops.TensorStridedSliceUpdate(
        input=flat(slots, capacity),
        begin=[0, first * width],
        end=[0, (first + beam_size) * width],
        strides=[1, 1],
        value=flat(new_BHKE, beam_size),
        begin_mask=0b01,  # all of the first axis
        end_mask=0b01,
    )
    return tf.reshape(tf.bitcast(written, slots.dtype), [-1, heads, capacity, size])
