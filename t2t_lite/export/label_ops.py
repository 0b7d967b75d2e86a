"""Labels of target languages inside a graph: a label at the start of a text is told from the text.

Legend: B texts, N pieces.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from t2t_lite.export.lookup_ops import GraphLookup
from t2t_lite.text import labels


class GraphLabels:
    """The labels of a vocabulary.

    Args:
        ids: of each label.
    """

    def __init__(self, ids: Mapping[str, int]) -> None:
        self._names = list(ids)
        self._lookup = GraphLookup(self._names)
        self._ids = tf.constant([*ids.values()] or [0], tf.int32)

    def split(self, texts: Any) -> tuple[Any, Any, Any]:
        """string [B] -> as `labels.split_label`: the rest, string [B]; int32 [B], ids; bool [B], is there a label."""
        names = tf.strings.regex_replace(texts, f"(?s)^({labels.LABEL}).*$", r"\1")
        place, known = self._lookup(names)
        rest = tf.strings.regex_replace(texts, f"(?s)^{labels.LABEL}{labels.BLANK}", "")
        return tf.where(known, rest, texts), tf.gather(self._ids, place), known

    def check(self, texts: Any, rest: Any, known: Any) -> Any:
        """What `split` was given, and two of its results -> the rest; a text without a label stops the graph.

        An empty text needs none.
        """
        if not self._names:
            return rest
        wrong = tf.boolean_mask(tf.strings.substr(texts, 0, 60, unit="UTF8_CHAR"), ~known & tf.not_equal(texts, ""))
        said = f"A line {labels.no_label(self._names)}"  # first, as clients show it without what follows
        checked = tf.debugging.Assert(tf.equal(tf.size(wrong), 0), [said, wrong], 1)
        with tf.control_dependencies([checked]):
            return tf.identity(rest)


def prepend(ids_B: Any, known_B: Any, pieces: Any) -> Any:
    """int32 [B], bool [B], ragged int32 [B, N] -> ragged int32 [B, N]: the pieces, after a label where it is known."""
    return tf.concat([tf.ragged.boolean_mask(ids_B[:, None], known_B[:, None]), pieces], axis=1)
