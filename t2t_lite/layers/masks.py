"""Attention masks, as numbers added to the scores: 0 where attention is allowed, -1e9 where not.

The paper sets illegal scores to minus infinity (section 3.2.3). exp(-1e9) is 0 in float32 as well, and a row in
which nothing is allowed (the empty rows that fill a batch) gives a uniform distribution rather than NaN.

Legend: B batch, S source length, T target length.
"""

from __future__ import annotations

from typing import Any

from keras import ops

from t2t_lite.ids import PAD

ILLEGAL = -1e9


def bias(allowed: Any) -> Any:
    """Returns float32 0 where `allowed` (bool) holds, ILLEGAL elsewhere."""
    return ops.where(allowed, ops.cast(0.0, "float32"), ops.cast(ILLEGAL, "float32"))


def padding_bias(ids_BS: Any) -> Any:
    """Mask of padding. int [B, S] -> float32 [B, 1, 1, S]."""
    return bias(ops.not_equal(ids_BS, PAD))[:, None, None, :]


def causal_bias(length: Any) -> Any:
    """Mask of the future (section 3.2.3). int T -> float32 [T, T].

    The mask has two axes, not four. If no gradient is needed, oneDNN adds a bias of four axes within the product. That
    takes a hundred times as long if the batch axis has size 1 and the axes of the lengths do not.
    """
    at = ops.arange(length)
    return bias(at[:, None] >= at[None, :])


def near(query_at: Any, key_at: Any, window: int, causal: bool) -> Any:
    """Keys that restricted self-attention sees (section 4): |i - j| <= window // 2. int [...] -> bool [...]."""
    distance, reach = key_at - query_at, window // 2
    return ops.logical_and(distance >= -reach, distance <= (0 if causal else reach))


def segment_bias(query_segments_BT: Any, key_segments_BS: Any) -> Any:
    """Mask that separates the pairs of a packed row (0 is padding). int [B, T], int [B, S] -> float32 [B, 1, T, S]."""
    same = ops.equal(query_segments_BT[:, :, None], key_segments_BS[:, None, :])
    return bias(ops.logical_and(same, key_segments_BS[:, None, :] > 0))[:, None]
