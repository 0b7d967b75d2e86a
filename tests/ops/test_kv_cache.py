"""The cache of a search against lists that are copied whenever hypotheses change places."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.ops import kv_cache

B, K, H, STEPS = 3, 4, 2, 75
BIAS = tf.zeros([B, 1, 1, 1])
SIZES = (8, 3)  # of keys, which are copied as wide numbers, and of values, which cannot be copied so


def _caches(dtype: str) -> list[tuple[tf.Tensor, tf.Tensor]]:
    return [tuple(tf.zeros([B, H, 1, size], dtype) for size in SIZES)] * 2


def _seen(
    view: kv_cache.KVCache, slots: tuple[tf.Tensor, tf.Tensor], row: int, beam: int
) -> dict[int, list[np.ndarray]]:
    """The key and value [H, E] that a hypothesis sees, by position."""
    shown = np.flatnonzero(view.bias.numpy()[row, 0, beam] == 0)
    positions = view.positions.numpy()[row, 0, 0, shown]
    assert len(set(positions)) == len(positions)
    return {
        int(position): [np.float32(x)[row, :, slot] for x in slots]
        for position, slot in zip(positions, shown, strict=True)
    }


@pytest.mark.commit("float32")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_each_hypothesis_sees_its_own_past(dtype: str) -> None:
    draw = np.random.default_rng(4)
    state = kv_cache.init(_caches(dtype), B, K, STEPS)
    wanted: list[list[dict[int, list[np.ndarray]]]] = [[{} for _ in range(K)] for _ in range(B)]
    largest = 0
    for step in range(STEPS):
        if kv_cache.is_full(state):
            state = kv_cache.compact(state, STEPS - step)
        view = kv_cache.KVCache(state, step, _caches(dtype), BIAS)
        for layer in view.layers:
            new = [tf.cast(draw.standard_normal((B, K, H, size)), dtype) for size in SIZES]
            slots = layer.update(*new)
        for row in range(B):
            for beam in range(K):
                wanted[row][beam][step] = [np.float32(x)[row, beam] for x in new]
                got = _seen(view, slots, row, beam)
                assert got.keys() == wanted[row][beam].keys()
                for position, arrays in wanted[row][beam].items():
                    for x, y in zip(got[position], arrays, strict=True):
                        np.testing.assert_array_equal(x, y)
        parents = draw.integers(0, K, (B, K))
        wanted = [[dict(wanted[row][parent]) for parent in parents[row]] for row in range(B)]
        state = kv_cache.reorder(view.advance(), tf.constant(parents, tf.int32))
        largest = max(largest, int(tf.shape(state["owner"])[2]))
    assert largest < K * STEPS / 2  # slots that no hypothesis sees any more are left out


def test_there_is_no_room_for_steps_that_will_not_be_made() -> None:
    state = kv_cache.init(_caches("float32"), B, K, 5)
    assert state["slots"][0][0].shape == (B, H, 5 * K, SIZES[0])
    view = kv_cache.KVCache(state, 0, _caches("float32"), BIAS)
    state = kv_cache.compact(kv_cache.reorder(view.advance(), tf.tile([[0, 1, 2, 3]], [B, 1])), 2)
    assert state["slots"][1][1].shape == (B, H, K + 2 * K, SIZES[1])
