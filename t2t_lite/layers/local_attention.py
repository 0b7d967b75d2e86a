"""Restricted self-attention (section 4; Table 1, last row): each position sees a neighbourhood of r positions.

The queries of a block see the keys of their own block and of the blocks beside it, and a mask hides what is further
away than r / 2. With blocks of r / 2 that is O(n r d) in time and O(n r) in memory; there is no [n, n] matrix.

Legend: B batch, H heads, T positions, K = d_k, V = d_v, N blocks, Q positions of a block, S = 3 Q keys (causal: 2 Q).
"""

from __future__ import annotations

import dataclasses
from typing import Any

from keras import ops

from t2t_lite.layers import masks
from t2t_lite.layers.scaled_dot_product import TensorFn, scaled_dot_product

_MIN_BLOCK = 16  # the products of smaller blocks take as long


@dataclasses.dataclass(frozen=True)
class Window:
    """What restricted self-attention sees; given to `MultiHeadAttention` in place of a bias.

    A query at i sees a key at j where |i - j| <= size // 2 and both belong to one segment.

    Args:
        size: r, at least 1.
        causal: keys after the query are hidden.
        segments: int [B, T], 0 for padding, which is hidden; different numbers keep the pairs of a packed row apart.
    """

    size: int
    causal: bool
    segments: Any

    def full_bias(self) -> Any:
        """The same as a bias for full attention, float32 [B, 1, T, T]."""
        at = ops.arange(ops.shape(self.segments)[1])
        near = masks.near(at[:, None], at[None, :], self.size, self.causal)
        return masks.segment_bias(self.segments, self.segments) + masks.bias(near)


def local_attention(query: Any, key: Any, value: Any, window: Window, drop: TensorFn | None = None) -> Any:
    """Equals `scaled_dot_product` with `window.full_bias()`, wherever a query sees anything at all.

    Args:
        query: [B, H, T, K].
        key: [B, H, T, K].
        value: [B, H, T, V].
        drop: applied to the weights [N, B, H, Q, S].

    Returns:
        [B, H, T, V].
    """
    length = ops.shape(query)[2]
    block = max(window.size // 2, _MIN_BLOCK)
    # A tensor if the graph does not know the length. A block longer than the rows would be of no use.
    block = max(1, min(block, length)) if isinstance(length, int) else ops.clip(length, 1, block)
    segments = window.segments[:, None, :, None]
    after = 0 if window.causal else 1  # blocks of keys on the right; there is always one on the left

    at = ops.arange((2 + after) * block)
    near = masks.near(at[:block, None] + block, at[None, :], window.size, window.causal)
    key_segments = ops.swapaxes(_neighbourhoods(segments, block, after), -1, -2)
    same = ops.logical_and(ops.equal(_blocks(segments, block), key_segments), key_segments > 0)
    heads = scaled_dot_product(
        _blocks(query, block),
        _neighbourhoods(key, block, after),
        _neighbourhoods(value, block, after),
        masks.bias(ops.logical_and(near, same)),  # [N, B, 1, Q, S]
        drop,
    )
    number, batch, num_heads, _, size = ops.shape(heads)
    return ops.reshape(ops.transpose(heads, (1, 2, 0, 3, 4)), (batch, num_heads, number * block, size))[:, :, :length]


def _blocks(x: Any, block: Any, before: int = 0, after: int = 0) -> Any:
    """[B, H, T, K] -> [before + N + after, B, H, Q, K]; added blocks and the end of the last one are zeros.

    Blocks come first because a slice of the first axis need not be copied.
    """
    batch, heads, length, _ = ops.shape(x)
    padding = (before * block, -length % block + after * block)
    x = ops.pad(x, ((0, 0), (0, 0), padding, (0, 0)))
    blocks = (ops.shape(x)[2]) // block
    return ops.transpose(ops.reshape(x, (batch, heads, blocks, block, x.shape[-1])), (2, 0, 1, 3, 4))


def _neighbourhoods(x: Any, block: Any, after: int) -> Any:
    """[B, H, T, K] -> [N, B, H, S, K]: each block with the one before and, if `after`, the one after it."""
    blocks = _blocks(x, block, 1, after)
    number = ops.shape(blocks)[0] - 1 - after
    return ops.concatenate([blocks[i : i + number] for i in range(2 + after)], axis=3)
