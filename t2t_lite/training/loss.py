"""The loss of a batch: cross entropies summed over its real target tokens, and what a model adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from t2t_lite.layers.dropout import second_pass
from t2t_lite.training.cross_entropy import smoothed_cross_entropy
from t2t_lite.training.guided_alignment import guided_alignment_loss, record_alignment
from t2t_lite.training.r_drop import r_drop_loss


def batch_loss(
    model: Any, batch: Mapping[str, Any], tokens: Any, label_smoothing: float, over: str = "all", seed: Any = None
) -> Any:
    """The `smoothed_cross_entropy` of a batch's real target tokens, divided by `tokens`.

    If the batch has alignments, `guided_alignment_loss`, times its weight in the model, is added before the division.

    Args:
        model: a `models.base.Model`.
        batch, seed: what the model is called with.
    """
    return batch_losses(model, batch, tokens, label_smoothing, over, seed)[0]


def batch_losses(
    model: Any,
    batch: Mapping[str, Any],
    tokens: Any,
    label_smoothing: float,
    over: str = "all",
    seed: Any = None,
    *,
    output: Sequence[Any] | None = None,
    jit: bool = False,
    r_drop: float = 0.0,
) -> tuple[Any, Any]:
    """`batch_loss`, and the batch's sums as `Model.hidden_and_sums` returns them.

    Args:
        output: the softmax layer's table and, if it has one, its bias, as arrays; None: `output_arrays`.
        jit: see `smoothed_cross_entropy`.
        r_drop: alpha of training/r_drop.py, for two passes. Loss and sums are then the means of both, and the gradients
            are also those of the divergence. 0: one pass.
    """
    with record_alignment(model) as attention:
        seeds = (seed, second_pass(seed)) if r_drop else (seed,)
        passes = [model.hidden_and_sums(batch, each) for each in seeds]
    labels = tf.reshape(batch["target"], [-1])
    weights = tf.reshape(target_weights(batch), [-1]) / tokens
    if output is None:
        output = output_arrays(model)
    xs = [tf.reshape(x, [-1, x.shape[-1]]) for x, _ in passes]
    table, *bias = output
    if bias:  # as one more column of the table
        table = tf.concat([table, bias[0][:, None]], 1)
        xs = [tf.concat([x, tf.ones_like(x[:, :1])], 1) for x in xs]
    if r_drop:
        loss = r_drop_loss(xs, table, labels, weights, label_smoothing, over, alpha=r_drop, jit=jit)
    else:
        loss = smoothed_cross_entropy(xs[0], table, labels, weights, label_smoothing, over, jit)
    for maps in attention if "alignment" in batch else ():
        weight = model.guided_alignment / len(passes) / tokens
        loss += weight * guided_alignment_loss(maps[:, 0], batch["alignment"])
    sums = [each for _, each in passes]
    return loss, sums[0] if sums[0] is None or not r_drop else tf.add_n(sums) / 2


def target_weights(batch: Mapping[str, Any]) -> Any:
    """Returns how much each place of the target counts, float32 [B, T]: 0 in padding, else 1 or its pair's weight."""
    if "weight" in batch:
        return tf.bitcast(batch["weight"], tf.float32)
    return tf.cast(batch["target"] > 0, tf.float32)


def output_arrays(model: Any, read: Mapping[int, Any] | None = None) -> list[Any]:
    """The softmax layer's table and, if it has one, its bias, as arrays.

    Args:
        read: an array for each of these weights, by id of the weight, used in its place; None: weights are read.
    """
    arrays = []
    for weight in model.output():
        if isinstance(weight, keras.Variable):
            arrays.append(tf.convert_to_tensor(weight.value) if read is None else read[id(weight)])
        elif weight is not None:
            arrays.append(weight)
    return arrays
