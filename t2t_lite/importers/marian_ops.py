"""Vocabulary of a Marian model inside a graph: pieces as strings, looked up in a fixed list.

Legend: B texts, N pieces of a text.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from t2t_lite.export.lookup_ops import GraphLookup
from t2t_lite.export.text_ops import BLANK, utf_8
from t2t_lite.ids import PAD, UNK
from t2t_lite.importers.marian_vocabulary import LABEL, MarianVocabulary
from t2t_lite.registry import VOCABULARY_OPS
from t2t_lite.text.line_breaks import BREAKS


@VOCABULARY_OPS.register(".marian")
class GraphMarian(tf.Module):
    """A Marian vocabulary as part of an exported model; texts are valid UTF-8."""

    def __init__(self, vocabulary: MarianVocabulary) -> None:
        import tensorflow_text

        super().__init__()
        self._vocabulary = vocabulary
        self._pieces = tf.constant(vocabulary.pieces(range(vocabulary.size)))
        self._texts = tf.constant(np.array(vocabulary.texts, object), tf.string)
        self._lookup = GraphLookup(list(vocabulary.ids))
        self._ids = tf.constant(list(vocabulary.ids.values()), tf.int32)
        self._labels = GraphLookup(vocabulary.labels)
        name = f"marian_{vocabulary.checksum[:32]}"  # see text_ops.sentencepiece_tokenizer
        self._tokenizer = tensorflow_text.SentencepieceTokenizer(vocabulary.model, out_type=tf.string, name=name)

    def line(self, texts: Any) -> Any:
        """string [B] -> string [B], as `MarianVocabulary.line`; a text without a known label stops the graph."""
        labels, rest, known = self._split(tf.strings.regex_replace(texts, BREAKS, " "))
        if self._vocabulary.labels:
            blank = tf.strings.regex_full_match(texts, BLANK)
            wrong = tf.boolean_mask(tf.strings.substr(texts, 0, 60, unit="UTF8_CHAR"), ~known & ~blank)
            reason = f"A line {self._vocabulary.no_label}"  # first, as it is what a client shows
            checked = tf.debugging.Assert(tf.equal(tf.size(wrong), 0), [reason, wrong], 1)
            with tf.control_dependencies([checked]):
                rest = tf.identity(rest)
        for pattern, replacement in self._vocabulary.cleaning:
            rest = tf.strings.regex_replace(rest, pattern, replacement)
        return tf.where(known, tf.strings.join([labels, rest], " "), rest)

    def _split(self, texts: Any) -> tuple[Any, Any, Any]:
        """string [B] -> labels and the rest, string [B], and bool [B], whether there is a known label."""
        labels = tf.strings.regex_replace(texts, f"(?s)^({LABEL}).*$", r"\1")
        _, known = self._labels(labels)
        rest = tf.strings.regex_replace(texts, rf"(?s)^{LABEL}[\t-\r ]?", "")
        return labels, tf.where(known, rest, texts), known

    def tokenize(self, texts: Any) -> Any:
        """string [B] -> ragged int32 [B, N], as `encode`."""
        labels, rest, known = self._split(texts)
        pieces = self._tokenizer.tokenize(rest)
        pieces = tf.concat([tf.ragged.boolean_mask(labels[:, None], known[:, None]), pieces], axis=1)
        place, found = self._lookup(pieces.flat_values)
        return pieces.with_flat_values(tf.where(found, tf.gather(self._ids, place), UNK))

    def detokenize(self, ids: Any) -> Any:
        """Ragged int32 [B, N] -> string [B], as `text_of`."""
        text = tf.strings.reduce_join(
            tf.ragged.map_flat_values(lambda flat: tf.gather(self._texts, self._known(flat)), ids), axis=1
        )
        return tf.strings.regex_replace(utf_8(text), "^ +", "")

    def display_pieces(self, ids: Any) -> Any:
        """int32 of any shape -> string: the piece; that of PAD for an id that does not exist."""
        return tf.gather(self._pieces, self._known(ids))

    def _known(self, ids: Any) -> Any:
        return tf.where((ids >= 0) & (ids < self._vocabulary.size), ids, PAD)
