"""Strings looked up in a fixed list inside a graph, in core TensorFlow ops.

A hash table would be a resource, which an exported model has to track, and to initialise as it is loaded; a sorted list
of fingerprints needs only constants. tensor2tensor's subwords have a table (importers/vocabulary_ops.py), as
TensorFlow Text's operation takes nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

_BUCKETS = (1 << 63) - 1


class GraphLookup:
    """Finds strings in a list.

    Args:
        keys: different strings.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        encoded = np.array([key.encode() for key in keys] or [b""], object)
        prints = tf.strings.to_hash_bucket_fast(tf.constant(encoded, tf.string), _BUCKETS).numpy()
        self._order = np.argsort(prints, kind="stable")
        self._prints, self._keys = prints[self._order], encoded[self._order]
        self._empty = not keys

    def __call__(self, strings: Any) -> tuple[Any, Any]:
        """string [N] -> int32 [N], the index of each in the list (any if not there), and bool [N], whether it is."""
        prints = tf.strings.to_hash_bucket_fast(strings, _BUCKETS)
        place = tf.searchsorted(self._prints, prints)
        place = tf.minimum(place, len(self._prints) - 1)
        found = tf.equal(tf.gather(tf.constant(self._keys, tf.string), place), strings)
        index = tf.gather(tf.constant(self._order, tf.int32), place)
        return index, tf.zeros_like(found) if self._empty else found
