"""Text to piece ids and back inside a graph: what `Vocabulary` does outside, with TensorFlow Text's ops.

Legend: B texts, N pieces.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from t2t_lite.text.vocabulary import EOS, PAD, UNK, Vocabulary, in_graph_tokenizer

# What str.isspace() says of each character, as RE2 writes it.
BLANK = r"[\t-\r\x{1c}-\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]*"
# Far more than any text of so many pieces has; what lies behind would be cut in any case, but read before.
_BYTES_PER_PIECE = 256


class GraphText(tf.Module):
    """A vocabulary as part of an exported model."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__()
        self._tokenizer = in_graph_tokenizer(vocabulary)
        self._size = vocabulary.size

    def encode(self, texts: Any, max_length: int) -> Any:
        """string [B] -> ragged int32 [B, N]: at most `max_length` pieces, the last one EOS; none of a blank text.

        Bytes that are no UTF-8 become U+FFFD, which is an unknown piece unless the vocabulary knows it.
        """
        texts = utf_8(tf.strings.substr(texts, 0, min(max_length * _BYTES_PER_PIECE, tf.int32.max)))
        texts = tf.where(tf.strings.regex_full_match(texts, BLANK), "", texts)
        return _ended(self._tokenizer.tokenize(texts), max_length)

    def clean(self, ids: Any, max_length: int) -> Any:
        """int32 [B, N] -> ragged int32 [B, N] as `encode` gives: PAD and EOS left out, ids that do not exist UNK."""
        ids = tf.where((ids >= 0) & (ids < self._size), ids, UNK)
        return _ended(tf.ragged.boolean_mask(ids, (ids != PAD) & (ids != EOS)), max_length)

    def decode(self, ids: Any) -> Any:
        """int32 [B, N] -> string [B]: the text up to the first EOS, PAD left out; always valid UTF-8."""
        ended = tf.cumsum(tf.cast(tf.equal(ids, EOS), tf.int32), axis=1) > 0
        pieces = tf.ragged.boolean_mask(ids, ~ended & (ids != PAD))
        return utf_8(self._tokenizer.detokenize(pieces))  # byte pieces may end in the middle of a character

    def pieces(self, ids: Any) -> Any:
        """int32 [B, N] -> string [B, N]: the name of each piece, EOS included; "" for PAD."""
        return tf.where(tf.equal(ids, PAD), "", self._tokenizer.id_to_string(ids))


def utf_8(texts: Any) -> Any:
    return tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")


def _ended(ids: Any, max_length: int) -> Any:
    ends = tf.fill([ids.nrows()], EOS)[:, None]
    ends = tf.ragged.boolean_mask(ends, ids.row_lengths()[:, None] > 0)
    return tf.concat([ids[:, : max_length - 1], ends], axis=1)
