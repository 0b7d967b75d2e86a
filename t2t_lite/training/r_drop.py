"""R-Drop (Liang et al., 2021, arXiv:2106.14448): two passes over the same rows, whose masks differ, are to agree.

Equation (4) of the paper, halved so that its first term is a cross entropy as without R-Drop:

    (H(q, P1) + H(q, P2)) / 2 + alpha / 4 * (KL(P1 || P2) + KL(P2 || P1))

Legend: N positions, V vocabulary, D d_model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from t2t_lite.training.cross_entropy import column_sums, label_places, log_sums, scatter_add, target_shares


def r_drop_loss(
    passes_ND: Sequence[Any],
    table_VD: Any,
    labels_N: Any,
    weights_N: Any,
    label_smoothing: float,
    over: str = "all",
    *,
    alpha: float,
    jit: bool = False,
) -> Any:
    """The mean of both passes' cross entropies; its gradients are those of the whole equation, divergence included.

    Only gradients need the divergence, so its value is not computed. They are written by hand as in
    `smoothed_cross_entropy`, since arrays [N, V] are by far the largest. With logits z, d = z1 - z2 and E1, E2 its
    means over P1 and P2, both divergences add up to E1 - E2, whose gradient for z1 is P1 (d - E1) + P1 - P2, and for z2
    P2 (E2 - d) + P2 - P1.

    Args:
        passes_ND: the decoder's outputs of both passes.
        alpha: above 0.
        table_VD, labels_N, weights_N, label_smoothing, over, jit: as for `smoothed_cross_entropy`.

    Returns:
        float32 scalar, in nats, a sum over positions.
    """
    on_label, on_all = target_shares(table_VD.shape[0], label_smoothing, over)
    half, factor = 0.5, alpha / 4  # of the entropies and of the divergences

    @tf.custom_gradient
    def loss(first: Any, second: Any, table: Any) -> tuple[Any, Any]:
        passes, rounded = (first, second), tf.cast(table, first.dtype)
        at_label, sum_of_table = label_places(labels_N), column_sums(table)
        logits = [tf.cast(tf.matmul(x, rounded, transpose_b=True), tf.float32) for x in passes]
        softmax = [tf.nn.softmax(each) for each in logits]
        entropy = 0.0
        for x, own, probabilities in zip(passes, logits, softmax, strict=True):
            of_label, probability = tf.gather_nd(own, at_label), tf.gather_nd(probabilities, at_label)
            of_all = tf.linalg.matvec(tf.cast(x, tf.float32), sum_of_table)
            entropy += half * (log_sums(own, of_label, probability, jit) - on_label * of_label - on_all * of_all)
        apart = logits[0] - logits[1]
        means = [tf.reduce_sum(each * apart, -1, keepdims=True) for each in softmax]

        def gradient(upstream: Any) -> list[Any]:
            weights = (weights_N * upstream)[:, None]
            share = half / factor  # all below is divided by `factor`, which spares a pass over [N, V]
            to_first = softmax[0] * (apart + (share + 1 - means[0])) - softmax[1]
            less_to_second = softmax[1] * (apart - (share + 1 + means[1])) + softmax[0]
            to_passes, to_table = [], 0.0
            for x, to_logits, sign in ((first, to_first, 1.0), (second, less_to_second, -1.0)):
                shares = tf.fill(tf.shape(labels_N), -sign * share * on_label)
                surplus = tf.cast(scatter_add(to_logits, at_label, shares, jit=jit), x.dtype)
                signed = sign * factor * weights
                weighted_x = signed * tf.cast(x, tf.float32)
                of_all = sign * share * on_all
                to_x = tf.cast(tf.matmul(surplus, rounded), tf.float32) - of_all * sum_of_table
                to_passes.append(tf.cast(signed * to_x, x.dtype))
                product = tf.matmul(surplus, tf.cast(weighted_x, x.dtype), transpose_a=True)
                to_table += tf.cast(product, tf.float32) - of_all * tf.reduce_sum(weighted_x, 0)
            return [*to_passes, to_table]

        return tf.reduce_sum(entropy * weights_N), gradient

    return loss(*passes_ND, table_VD)
