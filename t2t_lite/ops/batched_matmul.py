"""Many small products at once."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from t2t_lite.layers.step_attention import Product

_FEW = 8


def batched_matmul(dtype: str, beam_size: int) -> Product | None:
    """The `product` for `Transformer.stepper`; None where queries should not be taken one by one.

    TensorFlow gives its older operations of this kind to oneDNN, which for so small matrices takes up to five times as
    long, most of it for handing the work to its threads.

    Args:
        dtype: of the arguments. In other precisions than float32 each product would first copy all keys and values.
        beam_size: how many vectors meet the same matrix; past 8 of them, to read it for each costs more than it saves.
    """
    return _product if dtype == "float32" and beam_size <= _FEW else None


def _product(x: Any, y: Any, transpose: bool) -> Any:
    return tf.raw_ops.BatchMatMulV3(x=x, y=y, Tout=x.dtype, adj_y=transpose)
