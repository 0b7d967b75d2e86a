"""Loss of an attention head on given alignments: that of Garg et al. (2019, arXiv:1909.02074) in Marian's form.

Legend: B rows, T target length, S source length.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from t2t_lite.layers.recording import record

_SMALL = 1e-6  # as in Marian: no attention costs no more than 13.8


def guided_alignment_loss(weights_BTS: Any, links: Any) -> Any:
    """-sum over t and s of G[t, s] log(A[t, s] + 1e-6); G has 1 / n where one of a target's n links is.

    Targets without links cost nothing.

    Args:
        weights_BTS: A, float32, the head's distributions over the source.
        links: int32 [B, T x S], 1 where pieces are linked.

    Returns:
        float32 scalar, in nats.
    """
    links_BTS = tf.cast(tf.reshape(links, tf.shape(weights_BTS)), tf.float32)
    shares_BTS = links_BTS / tf.maximum(tf.reduce_sum(links_BTS, -1, keepdims=True), 1.0)
    return -tf.reduce_sum(shares_BTS * tf.math.log(weights_BTS + _SMALL))


@contextlib.contextmanager
def record_alignment(model: Any) -> Iterator[Sequence[Any]]:
    """Context whose sequence receives what the head of `model.alignment_attention` computes in it, [B, H, T, S]."""
    with record([model.alignment_attention] if model.guided_alignment else []) as seen:
        yield seen
