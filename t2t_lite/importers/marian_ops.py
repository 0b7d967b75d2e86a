"""Vocabulary of a Marian model inside a graph: pieces as strings, looked up in a fixed list.

Legend: B texts, N pieces of a text.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from t2t_lite.export.label_ops import GraphLabels, prepend
from t2t_lite.export.lookup_ops import GraphLookup
from t2t_lite.export.text_ops import utf_8
from t2t_lite.ids import PAD, UNK
from t2t_lite.importers.marian_vocabulary import MarianVocabulary
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
        self._labels = GraphLabels({label: vocabulary.ids[label] for label in vocabulary.labels})
        name = f"marian_{vocabulary.checksum[:32]}"  # see text_ops.sentencepiece_tokenizer
        self._tokenizer = tensorflow_text.SentencepieceTokenizer(vocabulary.model, out_type=tf.string, name=name)

    def line(self, texts: Any) -> Any:
        """string [B] -> string [B], as `MarianVocabulary.line`; a text without a known label stops the graph."""
        texts = tf.strings.regex_replace(texts, BREAKS, " ")
        rest, ids, known = self._labels.split(texts)
        rest = self._labels.check(texts, rest, known)
        for pattern, replacement in self._vocabulary.cleaning:
            rest = tf.strings.regex_replace(rest, pattern, replacement)
        return tf.where(known, tf.strings.join([tf.gather(self._pieces, ids), rest], " "), rest)

    def tokenize(self, texts: Any) -> Any:
        """string [B] -> ragged int32 [B, N], as `encode`."""
        rest, labels, known = self._labels.split(texts)
        pieces = self._tokenizer.tokenize(rest)
        place, found = self._lookup(pieces.flat_values)
        ids = pieces.with_flat_values(tf.where(found, tf.gather(self._ids, place), UNK))
        return prepend(labels, known, ids)

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
