"""Tokens and bytes inside a graph, in core TensorFlow: `TokenVocabulary`, `OpenNmtVocabulary`, `ByteVocabulary`.

Legend: B texts, N ids of a text.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from t2t_lite.export.lookup_ops import GraphLookup
from t2t_lite.text.opennmt_vocabulary import OpenNmtVocabulary
from t2t_lite.text.token_vocabulary import ByteVocabulary, TokenVocabulary

# The characters of which str.isspace() is true, as RE2 writes them.
WHITE_SPACE = r"[\t-\r\x{1c}-\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]"


class GraphTokens(tf.Module):
    """A token vocabulary as part of an exported model; texts are valid UTF-8."""

    def __init__(self, vocabulary: TokenVocabulary | OpenNmtVocabulary) -> None:
        super().__init__()
        self._tokens = tf.constant(vocabulary.pieces(range(vocabulary.size)))
        self._lookup = GraphLookup(list(vocabulary.ids))
        self._ids = tf.constant(list(vocabulary.ids.values()), tf.int32)
        self._unknown = vocabulary.unknown
        self._ascii = isinstance(vocabulary, OpenNmtVocabulary)  # ASCII white space, at which tf.strings.split cuts

    def tokenize(self, texts: Any) -> Any:
        """string [B] -> ragged int32 [B, N], as `encode`."""
        if not self._ascii:
            texts = tf.strings.regex_replace(texts, f"{WHITE_SPACE}+", " ")
        tokens = tf.strings.split(texts)
        place, found = self._lookup(tokens.flat_values)
        return tokens.with_flat_values(tf.where(found, tf.gather(self._ids, place), self._unknown))

    def detokenize(self, ids: Any) -> Any:
        """Ragged int32 [B, N] -> string [B], as `text_of`."""
        return tf.strings.reduce_join(tf.ragged.map_flat_values(self.id_to_string, ids), axis=1, separator=" ")

    def id_to_string(self, ids: Any) -> Any:
        """int32 of any shape -> string: the token; "ID_7" if there is no id 7."""
        there = (ids >= 0) & (ids < tf.size(self._tokens))
        tokens = tf.gather(self._tokens, tf.where(there, ids, 0))
        return tf.where(there, tokens, tf.strings.join(["ID_", tf.strings.as_string(ids)]))


class GraphBytes(tf.Module):
    """A byte vocabulary as part of an exported model; texts are valid UTF-8."""

    def __init__(self, vocabulary: ByteVocabulary) -> None:
        super().__init__()
        self._first = vocabulary.size - 256  # the id of byte 0
        self._size = vocabulary.size
        self._bytes = tf.constant([vocabulary.bytes_of(i) for i in range(vocabulary.size)] + [b""])

    def tokenize(self, texts: Any) -> Any:
        """string [B] -> ragged int32 [B, N], as `encode`."""
        single = tf.strings.bytes_split(texts)
        values = tf.reshape(tf.io.decode_raw(single.flat_values, tf.uint8), [-1])
        return single.with_flat_values(tf.cast(values, tf.int32) + self._first)

    def detokenize(self, ids: Any) -> Any:
        """Ragged int32 [B, N] -> string [B], as `text_of`."""
        joined = tf.strings.reduce_join(tf.ragged.map_flat_values(self._bytes_of, ids), axis=1)
        return tf.strings.unicode_transcode(joined, "UTF-8", "UTF-8", errors="replace")

    def _bytes_of(self, ids: Any) -> Any:
        return tf.gather(self._bytes, tf.where((ids >= 0) & (ids < self._size), ids, self._size))
