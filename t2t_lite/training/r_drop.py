"""R-Drop (Liang et al., 2021, arXiv:2106.14448): two passes over the same rows, whose masks differ, are to agree.

Equation (4) of the paper, halved so that its first term is a cross entropy as without R-Drop:

    (H(q, P1) + H(q, P2)) / 2 + alpha / 4 * (KL(P1 || P2) + KL(P2 || P1))

Legend: N positions, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def r_drop_losses(
    logits_NV: Any, others_NV: Any, labels_N: Any, weights_N: Any, on_label: float, on_all: float
) -> tuple[Any, Any]:
    """Returns the mean of both cross entropies, and KL in both directions, as weighted sums over positions.

    The gradients are written by hand, so that two arrays [N, V] are kept for them.

    Args:
        logits_NV, others_NV: of the two passes.
        labels_N: int32.
        weights_N: float32; 0 leaves a position out.
        on_label, on_all: q, as from `loss.target_shares`.

    Returns:
        Two float32 scalars, in nats.
    """

    @tf.custom_gradient
    def losses(*logits: Any) -> tuple[Any, Any]:
        first, second = (tf.nn.log_softmax(tf.cast(each, tf.float32)) for each in logits)
        of_label = tf.gather(first + second, labels_N, batch_dims=1)
        entropies = -0.5 * (on_label * of_label + on_all * tf.reduce_sum(first + second, -1))
        divergences = [tf.reduce_sum(tf.exp(p) * (p - q), -1) for p, q in ((first, second), (second, first))]

        def gradient(of_entropy: Any, of_divergence: Any) -> list[Any]:
            target = tf.one_hot(labels_N, first.shape[-1], on_label + on_all, on_all)

            def to(own: Any, other: Any, divergence: Any) -> Any:
                p = tf.exp(own)
                apart = p * (own - other - divergence[:, None]) + p - tf.exp(other)
                return weights_N[:, None] * (0.5 * of_entropy * (p - target) + of_divergence * apart)

            both = to(first, second, divergences[0]), to(second, first, divergences[1])
            return [tf.cast(found, each.dtype) for found, each in zip(both, logits, strict=True)]

        return (tf.reduce_sum(weights_N * entropies), tf.reduce_sum(weights_N * tf.add_n(divergences))), gradient

    entropy, divergence = losses(logits_NV, others_NV)
    return entropy, divergence
