"""Coverage penalty (Wu et al., 2016, equation 14): outputs whose attention leaves source pieces out rank lower.

As there, only whole hypotheses are scored by it, so it changes the order of a beam's outputs and not which are found.
The attention is that of the decoder's last layer, as a mean over its heads, and of an ensemble as a mean over its
members. It comes from one more pass over the outputs, as steps of a search keep none.

OpenNMT-py has the same sum as `-coverage_penalty wu`, of the attention of one head by default, and OpenNMT-tf and
CTranslate2 as `coverage_penalty`; CTranslate2 adds it to unfinished hypotheses, too. Marian has none.

Legend: B sentences, K hypotheses of a sentence, S source length, T and L target lengths.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from t2t_lite.errors import UsageError
from t2t_lite.ids import EOS, PAD

_SMALLEST = 1.2e-38  # float32's; the penalty of a piece without any attention is finite


def check_attends(model: Any, what: str) -> None:
    """Raises UsageError if a member of the model shows no attention to the source; `what` needs it."""
    for member in model.members().values():
        if "memory" not in member.attention_kinds:
            raise UsageError(
                f"{what} needs the decoder's attention to the source, which the model {type(member).__name__} does not "
                "show. Leave it out."
            )


def source_attention(model: Any, source: Any, target: Any) -> Any:
    """int32 [B, S], int32 [B, T], both padded -> float32 [B, T, S]; row t is of the step that predicts target t."""
    batch = {"source": source, "target": target}
    maps = [member.attention_maps(batch)["memory"][:, -1] for member in model.members().values()]
    weights = sum(tf.reduce_mean(tf.cast(of_heads, tf.float32), 1) for of_heads in maps) / len(maps)
    return weights * tf.cast(tf.not_equal(target, PAD), tf.float32)[:, :, None]


def coverage(attention: Any, source: Any) -> Any:
    """Returns sum_i log(min(sum_j p_ij, 1)), float32 [B], over all pieces i of the source, its end symbol included.

    Args:
        attention: as `source_attention` gives it; p_ij is that of target j to source i.
        source: int32 [B, S], padded.
    """
    covered = tf.clip_by_value(tf.reduce_sum(attention, 1), _SMALLEST, 1.0)
    return tf.reduce_sum(tf.where(tf.equal(source, PAD), 0.0, tf.math.log(covered)), 1)


def rank_by_coverage(model: Any, source: Any, ids: Any, scores: Any, beta: float) -> tuple[Any, Any]:
    """Returns hypotheses [B, K, L] and scores [B, K] in their new order, finished ones first.

    The scores are those given, and beta times `coverage`.
    """
    beam_size = ids.shape[1]
    repeated = tf.repeat(source, beam_size, 0)
    attention = source_attention(model, repeated, tf.reshape(ids, [-1, tf.shape(ids)[2]]))
    scores += beta * tf.reshape(coverage(attention, repeated), [-1, beam_size])
    finished = tf.reduce_any(tf.equal(ids, EOS), 2)
    by_score = tf.argsort(scores, direction="DESCENDING", stable=True)
    finished_first = tf.argsort(tf.cast(tf.gather(~finished, by_score, batch_dims=1), tf.int32), stable=True)
    order = tf.gather(by_score, finished_first, batch_dims=1)
    return tf.gather(ids, order, batch_dims=1), tf.gather(scores, order, batch_dims=1)
