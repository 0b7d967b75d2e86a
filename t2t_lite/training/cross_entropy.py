"""Softmax and cross entropy with label smoothing (section 5.4), summed over positions.

Legend: N positions, V vocabulary, D d_model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

_SMALL = 1e-30  # float32 has all its digits down to 1e-38; this is well above


def plain_cross_entropy(
    logits_NV: Any, labels_N: Any, weights_N: Any, label_smoothing: float, over: str = "all"
) -> Any:
    """Sum over positions of weight * H(q, softmax(logits)): the plain definition of `smoothed_cross_entropy`.

    The target distribution q depends on `over`. "all" is Szegedy et al. (2015), which section 5.4 cites: 1 - epsilon_ls
    on the label plus epsilon_ls / V on every symbol. "others" is tensor2tensor's code: 1 - epsilon_ls on the label and
    epsilon_ls / (V - 1) on every other symbol. (It also subtracts q's entropy, a constant; here nothing is subtracted.)

    Args:
        labels_N: int32.
        weights_N: float32; 0 leaves a position out.
        label_smoothing: epsilon_ls.
        over: "all" or "others".
    """
    vocab_size = logits_NV.shape[-1]
    elsewhere = label_smoothing / (vocab_size if over == "all" else vocab_size - 1)
    on_label = 1 - label_smoothing + (elsewhere if over == "all" else 0)
    q = tf.one_hot(labels_N, vocab_size, on_label, elsewhere)
    return tf.reduce_sum(weights_N * -tf.reduce_sum(q * tf.nn.log_softmax(tf.cast(logits_NV, tf.float32)), -1))


def target_shares(vocab_size: int, label_smoothing: float, over: str) -> tuple[float, float]:
    """Returns what q gives to the label alone, and what it gives to every symbol, the label too."""
    if over == "others":  # the same q as "all" with slightly more smoothing
        label_smoothing *= vocab_size / (vocab_size - 1)
    return 1 - label_smoothing, label_smoothing / vocab_size


def smoothed_cross_entropy(
    x_ND: Any,
    table_VD: Any,
    labels_N: Any,
    weights_N: Any,
    label_smoothing: float,
    over: str = "all",
    jit: bool = False,
) -> Any:
    """`plain_cross_entropy` of the logits x table^T, in fewer passes; its gradients are written by hand.

    Arrays [N, V] are by far the largest of a training step. Few are made, as this function includes the product: the
    weights, and what smoothing gives to all symbols, are applied on the other side of the products.

    Gain (benchmarks/notebook.md): T2 takes 0.93 of the time, T1 with bfloat16 0.97.

    Args:
        x_ND: the decoder's output; the products for logits and gradients are made in its dtype.
        table_VD: float32, the softmax layer's weights.
        labels_N, weights_N, label_smoothing, over: as above.
        jit: for XLA: without a branch, for which a GPU would have to wait.

    Returns:
        float32 scalar, in nats.
    """
    on_label, on_all = target_shares(table_VD.shape[0], label_smoothing, over)

    # The gradient by hand, (softmax - q) * weight, keeps one [N, V] array from the forward pass and builds no q.
    @tf.custom_gradient
    def loss(x: Any, table: Any) -> tuple[Any, Any]:
        rounded = tf.cast(table, x.dtype)
        logits = tf.matmul(x, rounded, transpose_b=True)
        log_sum, of_label, surplus_of = (_of_kept_logits if jit else _of_softmax)(logits, labels_N)
        sum_of_table = column_sums(table)
        of_all = tf.linalg.matvec(tf.cast(x, tf.float32), sum_of_table)
        losses = log_sum - on_label * of_label - on_all * of_all

        def gradient(upstream: Any) -> tuple[Any, Any]:
            weights = (weights_N * upstream)[:, None]
            surplus = tf.cast(surplus_of(on_label), x.dtype)
            weighted_x = weights * tf.cast(x, tf.float32)
            to_x = tf.cast(tf.matmul(surplus, rounded), tf.float32) - on_all * sum_of_table
            to_table = tf.cast(tf.matmul(surplus, tf.cast(weighted_x, x.dtype), transpose_a=True), tf.float32)
            return tf.cast(weights * to_x, x.dtype), to_table - on_all * tf.reduce_sum(weighted_x, 0)

        return tf.reduce_sum(losses * weights_N), gradient

    return loss(x_ND, table_VD)


# log sum exp [N]; the labels' logits [N]; a function of `share`: softmax minus share at the labels, float32 [N, V].
_Parts = tuple[Any, Any, Callable[[float], Any]]


def _of_kept_logits(logits_NV: Any, labels_N: Any) -> _Parts:
    """For XLA: the logits, in their own type, are the only array [N, V] that is kept for the gradients.

    On a GPU each pass over [N, V] takes its own time: one for the maximum, one for the sum, one for the gradients.
    """
    logits = tf.cast(logits_NV, tf.float32)
    highest = tf.reduce_max(logits, -1)
    log_rest = tf.math.log(tf.reduce_sum(tf.exp(logits - highest[:, None]), -1))

    def surplus(share: float) -> Any:
        at_label = labels_N[:, None] == tf.range(logits.shape[-1])
        # In this order: the log-sum as one number would have lost digits where logits are large.
        return tf.exp(logits - highest[:, None] - log_rest[:, None]) - tf.where(at_label, share, 0.0)

    return highest + log_rest, tf.cast(tf.gather(logits_NV, labels_N, batch_dims=1), tf.float32), surplus


def _of_softmax(logits_NV: Any, labels_N: Any) -> _Parts:
    """For TensorFlow's kernels: the softmax is kept, and the labels are subtracted in its memory."""
    logits = tf.cast(logits_NV, tf.float32)
    at_label = label_places(labels_N)
    softmax = tf.nn.softmax(logits)
    of_label, probability = tf.gather_nd(logits, at_label), tf.gather_nd(softmax, at_label)
    log_sum = log_sums(logits, of_label, probability, jit=False)

    def surplus(share: float) -> Any:
        with tf.control_dependencies([log_sum]):  # after everything else has read the probabilities
            return scatter_add(softmax, at_label, tf.fill(tf.shape(labels_N), -share), jit=False)

    return log_sum, of_label, surplus


def scatter_add(array: Any, places: Any, values: Any, *, jit: bool) -> Any:
    """Returns `array` with `values` added at `places`; in place if nothing reads `array` afterwards.

    Args:
        places: int32 [..., axes], indices of the first axes, which may repeat.
        jit: for XLA, which manages the memory itself.
    """
    operation = tf.raw_ops.TensorScatterAdd if jit else tf.raw_ops.ScatterNdNonAliasingAdd
    keyword = "tensor" if jit else "input"
    return operation(**{keyword: array}, indices=places, updates=values)


def column_sums(matrix: Any) -> Any:
    """[R, C] -> [C], as a product: TensorFlow's sum down the columns takes three times as long."""
    return tf.matmul(tf.ones([1, matrix.shape[0]]), matrix)[0]


def label_places(labels_N: Any) -> Any:
    """Returns the indices [N, 2] of the labels in an array [N, V]; int64, as there may be more than 2^31 logits."""
    return tf.stack([tf.range(tf.shape(labels_N, tf.int64)[0]), tf.cast(labels_N, tf.int64)], axis=1)


def log_sums(logits: Any, of_label: Any, probability: Any, jit: bool) -> Any:
    """log sum exp of each row, from the label's logit and probability: passes over all logits are slow.

    For XLA (`jit`) from all logits, without a branch.
    """
    if jit:
        return tf.reduce_logsumexp(logits, -1)
    return tf.cond(
        tf.reduce_min(probability) > _SMALL,
        lambda: of_label - tf.math.log(probability),
        # Not from other probabilities: even a branch that is not taken would prevent writing to their array.
        lambda: tf.reduce_logsumexp(logits, -1),
    )
