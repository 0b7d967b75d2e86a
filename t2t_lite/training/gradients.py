"""Loss and gradients of some rows of a global batch."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from t2t_lite.errors import UsageError
from t2t_lite.layers.functions import use
from t2t_lite.layers.layer_norm import layer_norm
from t2t_lite.ops.batch_shards import batch_shards
from t2t_lite.ops.graph import PLAIN
from t2t_lite.ops.layer_norm import layer_norm_with_gradients
from t2t_lite.training.cross_entropy import scatter_add
from t2t_lite.training.loss import batch_losses, output_arrays, target_weights


def loss_and_gradients(
    model: Any,
    batch: Mapping[str, Any],
    seed: Any,
    tokens: Any,
    smoothing: tuple[float, str],
    *,
    groups: int,
    shards: int,
    jit: bool,
    scale: Any = None,
    r_drop: float = 0.0,
) -> tuple[Any, list[Any]]:
    """Returns loss and gradients of a part of a batch, for the model's trainable weights, in their order.

    The loss is `batch_loss`. If the model has a `further_loss`, that of each group of rows is added, times (real target
    tokens of the group / `tokens`). Added up over the parts of a global batch, the loss is a mean over tokens: of each
    token's cross entropy plus the further loss of its group. With R-Drop the gradients are of the whole of its
    equation, and the loss that is returned lacks the divergence.

    Args:
        model: a `models.base.Model`.
        batch, seed: what the model is called with.
        tokens: of the global batch; see `batch_loss`.
        smoothing: label_smoothing and label_smoothing_over, as in HParams.
        groups: into how many groups of consecutive rows, equally many, the sums of a further loss are added up.
        shards: number of shards of rows, which are computed in parallel; more than one is for CPUs.
        jit: whether the graph is for XLA.
        scale: factor of the loss whose gradients are computed, and then divided by it; see `LossScale`.
        r_drop: alpha of training/r_drop.py; 0: one pass.
    """
    weights = model.trainable_weights
    read = [tf.convert_to_tensor(weight.value) for weight in weights]
    softmax = [weight for weight in model.output() if isinstance(weight, keras.Variable)]
    # Read separately, so that its gradient is separate from that of its lookups.
    apart = [tf.convert_to_tensor(weight.value) for weight in softmax]
    # Weights that are read once are also cast and concatenated once for all shards. That does not work with `remat`,
    # whose recomputed parts have gradients for variables only.
    once = not model.remat
    scope = keras.StatelessScope(list(zip(weights, read, strict=True))) if once else contextlib.nullcontext()
    # A replica's thread has an empty table.
    with use([(layer_norm, layer_norm_with_gradients), *([] if jit else PLAIN)]):
        with tf.GradientTape() as tape, scope:
            for array in (*read, *apart):
                tape.watch(array)
            # Inside the scope, as it may be computed from weights; once for all shards.
            output = output_arrays(model, {id(weight): array for weight, array in zip(softmax, apart, strict=True)})
            parts = [
                batch_losses(model, rows, tokens, *smoothing, rows_seed, output=output, jit=jit, r_drop=r_drop)
                for rows, rows_seed in batch_shards(batch, seed, shards)
            ]
            loss = tf.add_n([loss for loss, _ in parts])
            if groups:  # added up first: the further loss of a sum is not the sum of further losses
                sums = _of_groups(tf.concat([each for _, each in parts], 0), groups)
                of_targets = tf.reduce_sum(target_weights(batch), 1)
                loss += tf.reduce_sum(_of_groups(of_targets, groups) / tokens * model.further_loss(sums))
        sources = read if once else [weight.value for weight in weights]
        gradients, of_softmax = tape.gradient(loss, [sources, apart], output_gradients=scale)
    whole = {id(weight): gradient for weight, gradient in zip(softmax, of_softmax, strict=True)}
    unused = [w.path for w, got in zip(weights, gradients, strict=True) if got is None and id(w) not in whole]
    if unused:
        raise UsageError(
            f"{type(model).__name__}: the loss does not depend on {', '.join(unused)}. Use these weights in hidden(), "
            "or make them untrainable (trainable=False)."
        )
    gradients = [
        _with_lookups(whole[id(weight)], gradient, jit) if id(weight) in whole else tf.convert_to_tensor(gradient)
        for weight, gradient in zip(weights, gradients, strict=True)
    ]
    return loss, gradients if scale is None else [gradient / scale for gradient in gradients]


def _of_groups(values: Any, groups: int) -> Any:
    """[rows, ...] -> [groups, ...], the sum over each group's rows."""
    shape = tf.shape(values)
    return tf.reduce_sum(tf.reshape(values, tf.concat([[groups, shape[0] // groups], shape[1:]], 0)), 1)


def _with_lookups(of_table: Any, of_lookups: Any, jit: bool) -> Any:
    """Gradient of the softmax table, including that of its rows used as embeddings; adding it takes memory."""
    if of_lookups is None:
        return of_table
    if not isinstance(of_lookups, tf.IndexedSlices):
        return of_table + of_lookups
    return scatter_add(of_table, of_lookups.indices[:, None], of_lookups.values, jit=jit)
