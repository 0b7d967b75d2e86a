"""Rotary positions (Su et al., 2021, arXiv:2104.09864): queries and keys are turned by angles that grow with position.

Equation (34): columns 2 i and 2 i + 1 of a head are turned by the angle pos 10000^(-2 i / d_k). The score of a query
and a key then depends on how far apart they are, and not on where they are.
"""

from __future__ import annotations

from typing import Any

from keras import ops

from t2t_lite.layers.matmul import batch_shape
from t2t_lite.layers.positions import sinusoids


def rotate(x: Any, positions: Any) -> Any:
    """Turns the vectors of heads; float32 inside, at any precision.

    Args:
        x: [B, T, H, K], K even.
        positions: int [T], or a scalar for all.

    Returns:
        [B, T, H, K] of x's dtype.
    """
    pairs = (*batch_shape(x), x.shape[-1] // 2, 2)
    angles = ops.reshape(
        sinusoids(positions, x.shape[-1]), (-1, 1, *pairs[-2:])
    )  # of sines and cosines, [T, 1, K/2, 2]
    sine, cosine = angles[..., 0], angles[..., 1]
    by_pair = ops.reshape(ops.cast(x, "float32"), pairs)
    even, odd = by_pair[..., 0], by_pair[..., 1]
    turned = ops.stack([even * cosine - odd * sine, odd * cosine + even * sine], axis=-1)
    return ops.cast(ops.reshape(turned, (*pairs[:-2], x.shape[-1])), x.dtype)
