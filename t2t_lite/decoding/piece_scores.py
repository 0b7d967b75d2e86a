"""Log-probabilities of the pieces of given targets, after those before them."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from t2t_lite.ids import PAD


def piece_log_probs(model: Any, source: Any, target: Any, seed: Any = None) -> Any:
    """int32 [B, S], int32 [B, T], both padded -> float32 [B, T], of each piece after those before it; 0 for padding.

    seed: of dropout, int32 [3]; None: there is none.
    """
    logits = model({"source": source, "target": target}, seed=seed)
    logp = tf.gather(logits, target, batch_dims=2) - tf.reduce_logsumexp(logits, -1)
    return tf.where(tf.not_equal(target, PAD), logp, 0.0)


def piece_entropies(model: Any, source: Any, target: Any) -> tuple[Any, Any]:
    """As `piece_log_probs`, and the entropy of the distribution that each piece is of, float32 [B, T], in nats."""
    logp = tf.nn.log_softmax(model({"source": source, "target": target}))
    entropies = -tf.reduce_sum(tf.math.multiply_no_nan(logp, tf.exp(logp)), -1)
    is_piece = tf.not_equal(target, PAD)
    return tuple(tf.where(is_piece, values, 0.0) for values in (tf.gather(logp, target, batch_dims=2), entropies))


def log_probs(model: Any, source: Any, target: Any) -> tuple[Any, Any]:
    """int32 [B, S], int32 [B, T], both padded -> float32 [B] log-probabilities, int32 [B] pieces, EOS included."""
    values = piece_log_probs(model, source, target)
    return tf.reduce_sum(values, 1), tf.math.count_nonzero(target, axis=1, dtype=tf.int32)
