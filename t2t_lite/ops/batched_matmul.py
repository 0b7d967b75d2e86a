"""Many small products at once.

Gain (benchmarks/notebook.md): D2 takes 0.87 of the time and D3 0.90, in float32.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

_FEW = 8


def is_faster(dtype: Any, vectors: int) -> bool:
    """Whether vectors should be multiplied one by one, with `batched_matmul`.

    Args:
        dtype: dtype of the arguments. In precisions other than float32 each product would first copy all keys and
            values.
        vectors: how many are multiplied by the same matrix; above 8, reading it for each costs more than it saves.
    """
    return bool(dtype == tf.float32 and vectors <= _FEW)


def batched_matmul(x: Any, y: Any, *, transpose: bool = False) -> Any:
    """Products of vectors [..., 1, I] and matrices [..., I, O]; leading axes are broadcast.

    TensorFlow passes its older operations of this kind to oneDNN. For such small matrices oneDNN takes up to five times
    as long, mostly because it hands the work to its threads.

    Args:
        transpose: the matrices are [..., O, I].
    """
    return tf.raw_ops.BatchMatMulV3(x=x, y=y, Tout=x.dtype, adj_y=transpose)
