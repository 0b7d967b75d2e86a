"""The softmax layer of a search with a shortlist: logits of each sentence's own candidates alone.

The rows of the table are gathered once for each sentence, and a step multiplies a sentence's hypotheses by them. So no
logit depends on the other sentences of the batch. Rows for the whole batch would be many more: 64 of Multi30k, with
279 candidates each, have 3,233 in all.

Legend: B sentences, K hypotheses of a sentence, C candidates, D width, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from t2t_lite.ops.batched_matmul import batched_matmul
from t2t_lite.ops.int8 import Int8Matrix, round_rows, rounds_rows
from t2t_lite.ops.int8_product import LARGEST

_NEVER = -float("inf")


def no_shortlist(model: Any) -> str:
    """Returns the message about a model that does not compute its logits with `Model.logits`."""
    return f"shortlist is not for a {type(model).__name__}, which has a softmax layer of its own. Leave it out."


def gather_softmax(model: Any, candidates: Any) -> dict[str, Any]:
    """Returns the part of a model's softmax layer that `shortlisted_logits` needs: arrays whose first axis is B.

    Args:
        candidates: int32 [B, C], filled up with -1.
    """
    table, bias = model.output()
    places = tf.maximum(candidates, 0)
    part = {"bias": tf.where(candidates < 0, _NEVER, 0.0)}
    if bias is not None:
        part["bias"] += tf.gather(tf.cast(tf.convert_to_tensor(bias), tf.float32), places)
    if not isinstance(table, Int8Matrix):
        rows = tf.cast(tf.gather(tf.convert_to_tensor(table), places), model.compute_dtype)
        return {**part, "rows": tf.cast(rows, tf.float32)}
    if not rounds_rows(table.values):
        return {**part, "rows": table.take(places)}
    return {**part, "rows": tf.cast(tf.gather(table.values, places), tf.float32), "scales": table.take_scales(places)}


def shortlisted_logits(part: dict[str, Any], hidden: Any) -> Any:
    """Returns the float32 logits [B, K, C] of hypotheses [B, K, D]; minus infinity where there is no candidate.

    They are those of the whole table, up to rounding. Integers are multiplied as float32, which has their sums exactly
    up to a width of 1,040.
    """
    x, factors = tf.cast(hidden, tf.float32), None
    if "scales" in part:
        x, largest = round_rows(x)
        factors = part["scales"][:, None] * (largest / LARGEST)
    if hidden.shape[1] == 1:
        product = batched_matmul(x, part["rows"], transpose=True)
    else:
        product = tf.matmul(x, part["rows"], transpose_b=True)
    product = product if factors is None else product * factors
    return tf.cast(tf.cast(product, hidden.dtype), tf.float32) + part["bias"][:, None]
