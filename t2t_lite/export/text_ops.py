"""Vocabularies inside a graph: text to piece ids and back, with TensorFlow Text's ops.

Legend: B texts, N pieces.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from t2t_lite.export.label_ops import GraphLabels, prepend
from t2t_lite.ids import EOS, PAD
from t2t_lite.registry import VOCABULARY_OPS
from t2t_lite.text.any_vocabulary import AnyVocabulary
from t2t_lite.text.line_breaks import BREAKS
from t2t_lite.text.vocabulary import Vocabulary

# The characters of which str.isspace() is true, as RE2 writes them.
WHITE_SPACE = r"[\t-\r\x{1c}-\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]"
BLANK = f"{WHITE_SPACE}*"
# Far more than any text of so many pieces has. The rest would be cut off in any case, but only after it was read.
_BYTES_PER_PIECE = 256


class GraphText(tf.Module):
    """A vocabulary as part of an exported model."""

    def __init__(self, vocabulary: AnyVocabulary) -> None:
        super().__init__()
        self._labels = None  # where they are no part of the vocabulary's `line`
        if isinstance(vocabulary, Vocabulary):
            self._tokenizer: Any = _GraphPieces(vocabulary)
            self._labels = GraphLabels(vocabulary.label_ids) if vocabulary.labels else None
        else:
            self._tokenizer = VOCABULARY_OPS.get(vocabulary.suffix)(vocabulary)
        self._size, self._unknown = vocabulary.size, vocabulary.unknown

    def encode(self, texts: Any, max_length: int) -> Any:
        """string [B] -> ragged int32 [B, N]: at most `max_length` pieces, the last one EOS; none for a blank text.

        Bytes that are no UTF-8 become U+FFFD, which is an unknown piece unless the vocabulary can write it.
        """
        return _end(self._ids(_read(texts, max_length)), max_length)

    def encode_source(self, texts: Any, max_length: int) -> Any:
        """As `encode`, of sources: a label is one id, and a text without one stops the graph if there are labels."""
        texts = _read(texts, max_length)
        if self._labels is None:
            return _end(self._ids(texts), max_length)
        rest, labels, known = self._labels.split(texts)
        rest = self._labels.check(texts, rest, known)
        return _end(prepend(labels, known, self._ids(rest)), max_length)

    def _ids(self, texts: Any) -> Any:
        return self._tokenizer.tokenize(self._tokenizer.line(texts))

    def clean(self, ids: Any, max_length: int) -> Any:
        """int32 [B, N] -> ragged int32 [B, N] as `encode` gives: PAD and EOS left out.

        Ids that do not exist become the unknown piece; where a vocabulary has none, they are left out.
        """
        unknown = PAD if self._unknown is None else self._unknown
        ids = tf.where((ids >= 0) & (ids < self._size), ids, unknown)
        return _end(tf.ragged.boolean_mask(ids, (ids != PAD) & (ids != EOS)), max_length)

    def decode(self, ids: Any) -> Any:
        """int32 [B, N] -> string [B]: the text up to the first EOS, PAD left out; always valid UTF-8."""
        ended = tf.cumsum(tf.cast(tf.equal(ids, EOS), tf.int32), axis=1) > 0
        pieces = tf.ragged.boolean_mask(ids, ~ended & (ids != PAD))
        return utf_8(self._tokenizer.detokenize(pieces))  # byte pieces may end in the middle of a character

    def source(self, inputs: Any) -> Any:
        """string [B] -> string [B]: the inputs as the model reads them; here unchanged."""
        return inputs

    def output(self, ids: Any, inputs: Any) -> Any:
        """int32 [B, N], string [B] as `source` gives -> string [B]: the outputs, here the text of the ids."""
        return self.decode(ids)

    def pieces(self, ids: Any) -> Any:
        """int32 [B, N] -> string [B, N]: the pieces, EOS included, as the vocabulary's `display_pieces`; "" for PAD."""
        names = self._tokenizer.display_pieces(ids)
        return tf.where(tf.equal(ids, PAD), "", names)


class _GraphPieces(tf.Module):
    """A SentencePiece vocabulary in a graph; those of `registry.VOCABULARY_OPS` have the same methods."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__()
        self._tokenizer = sentencepiece_tokenizer(vocabulary)
        self._break = "\n" if vocabulary.keeps_line_breaks else " "

    def line(self, texts: Any) -> Any:
        """string [B] -> string [B], as the vocabulary's `line`."""
        return tf.strings.regex_replace(texts, "\r\n" if self._break == "\n" else BREAKS, self._break)

    def tokenize(self, texts: Any) -> Any:
        """string [B] -> ragged int32 [B, N], as the vocabulary's `encode`."""
        return self._tokenizer.tokenize(texts)

    def detokenize(self, ids: Any) -> Any:
        """Ragged int32 [B, N] -> string [B], as the vocabulary's `text_of`."""
        return self.line(self._tokenizer.detokenize(ids))  # bytes may be a line break

    def display_pieces(self, ids: Any) -> Any:
        """int32 [B, N] -> string [B, N], as the vocabulary's `display_pieces`."""
        return self._tokenizer.id_to_string(ids)


def sentencepiece_tokenizer(vocabulary: Vocabulary) -> Any:
    """Returns the TensorFlow Text tokenizer of `vocabulary`: string tensors to int32 ids, equal to `encode`."""
    import tensorflow_text

    # TensorFlow finds a loaded model's vocabulary by this name. The default name is the same for all models, so a
    # process would use the first vocabulary in place of every other. (The ids' type is int32 by default.)
    name = f"vocabulary_{vocabulary.checksum[:32]}"
    return tensorflow_text.SentencepieceTokenizer(model=vocabulary.data, name=name)


def _read(texts: Any, max_length: int) -> Any:
    """string [B] -> string [B]: valid UTF-8, far more than `max_length` pieces of it; "" for a blank text."""
    texts = utf_8(tf.strings.substr(texts, 0, min(max_length * _BYTES_PER_PIECE, tf.int32.max)))
    return tf.where(tf.strings.regex_full_match(texts, BLANK), "", texts)


def utf_8(texts: Any) -> Any:
    return tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")


def _end(ids: Any, max_length: int) -> Any:
    ends = tf.fill([ids.nrows()], EOS)[:, None]
    ends = tf.ragged.boolean_mask(ends, ids.row_lengths()[:, None] > 0)
    return tf.concat([ids[:, : max_length - 1], ends], axis=1)
