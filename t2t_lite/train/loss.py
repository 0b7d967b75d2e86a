"""Cross entropy with label smoothing (section 5.4), summed over real target tokens.

Legend: N positions, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def smoothed_cross_entropy(
    logits_NV: Any, labels_N: Any, weights_N: Any, label_smoothing: float, over: str = "all"
) -> Any:
    """Sum over positions of weight * H(q, softmax(logits)).

    The target distribution q depends on `over`. "all" is Szegedy et al. (2015), which section 5.4 cites: 1 - epsilon_ls
    on the label plus epsilon_ls / V on every symbol. "others" is tensor2tensor's code: 1 - epsilon_ls on the label and
    epsilon_ls / (V - 1) on every other symbol. (It also subtracts q's entropy, a constant; here nothing is subtracted.)

    Args:
        logits_NV: float32.
        labels_N: int32.
        weights_N: float32; 0 leaves a position out.
        label_smoothing: epsilon_ls.
        over: "all" or "others".

    Returns:
        float32 scalar, in nats.
    """
    vocab_size = logits_NV.shape[-1]
    if over == "others":  # the same q as "all" with a little more
        label_smoothing *= vocab_size / (vocab_size - 1)

    # The gradient by hand, (softmax - q) * weight, keeps one [N, V] array from the forward pass and builds no q.
    @tf.custom_gradient
    def loss(logits: Any) -> tuple[Any, Any]:
        softmax = tf.nn.softmax(logits)
        # log sum exp through the largest entry, whose probability is at least 1 / V and never underflows.
        log_sum = tf.reduce_max(logits, -1) - tf.math.log(tf.reduce_max(softmax, -1))
        at_label = tf.stack([tf.range(tf.shape(labels_N)[0]), labels_N], axis=1)
        of_label = tf.gather_nd(logits, at_label)
        mean = tf.reduce_mean(logits, -1)
        losses = log_sum - (1 - label_smoothing) * of_label - label_smoothing * mean

        def gradient(upstream: Any) -> Any:
            weights = weights_N * upstream
            all_symbols = (softmax - label_smoothing / vocab_size) * weights[:, None]
            return tf.tensor_scatter_nd_sub(all_symbols, at_label, (1 - label_smoothing) * weights)

        return tf.reduce_sum(losses * weights_N), gradient

    return loss(logits_NV)
