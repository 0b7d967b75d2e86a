"""Relative positions (Shaw et al., 2018): self-attention knows how far each key is from its query.

score(i, j) = q_i (k_j + a_K[j - i])^T / sqrt(d_k) and z_i = sum_j weight(i, j) (v_j + a_V[j - i]), where distances
beyond R to either side count as R. All heads of a layer share its two tables of 2 R + 1 vectors.

Legend: B batch, H heads, T queries, S keys, E = d_k or d_v.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from keras import ops


class Relative(NamedTuple):
    """What each query adds to its keys and values: [T, S, d_k] and [T, S, d_v]; in a search B in place of T."""

    keys: Any
    values: Any


def vectors(table: Any, distances: Any, dtype: Any) -> Any:
    """Returns the rows of a table [2 R + 1, E] for distances, key minus query: int [...] -> [..., E]."""
    reach = table.shape[0] // 2
    return ops.cast(ops.take(table, ops.clip(distances, -reach, reach) + reach, axis=0), dtype)


def matmul_by_query(x: Any, matrices: Any) -> Any:
    """Multiplies the rows of each query with its own matrix: [B, H, T, I] and [T, I, O] -> [B, H, T, O]."""
    batch, heads, length, inputs = ops.shape(x)
    rows = ops.reshape(ops.transpose(x, (2, 0, 1, 3)), (length, batch * heads, inputs))
    product = ops.reshape(ops.matmul(rows, matrices), (length, batch, heads, ops.shape(matrices)[2]))
    return ops.transpose(product, (1, 2, 0, 3))
