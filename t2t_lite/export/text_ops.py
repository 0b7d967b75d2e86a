"""Vocabularies inside a graph: text to piece ids and back, with TensorFlow Text's ops.

Legend: B texts, N pieces.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from t2t_lite.export.subword_ops import GraphSubwords
from t2t_lite.export.token_ops import WHITE_SPACE, GraphBytes, GraphTokens
from t2t_lite.ids import EOS, PAD
from t2t_lite.text.any_vocabulary import WORD_START, AnyVocabulary
from t2t_lite.text.imported_vocabulary import END_SHOWN, ImportedVocabulary
from t2t_lite.text.line_breaks import BREAKS
from t2t_lite.text.opennmt_vocabulary import OpenNmtVocabulary
from t2t_lite.text.subwords import SubwordVocabulary
from t2t_lite.text.token_vocabulary import ByteVocabulary, TokenVocabulary
from t2t_lite.text.vocabulary import Vocabulary

BLANK = f"{WHITE_SPACE}*"
# Far more than any text of so many pieces has. The rest would be cut off in any case, but only after it was read.
_BYTES_PER_PIECE = 256

_IN_GRAPH: dict[type[AnyVocabulary], Any] = {
    SubwordVocabulary: GraphSubwords,
    TokenVocabulary: GraphTokens,
    ByteVocabulary: GraphBytes,
    OpenNmtVocabulary: GraphTokens,
}


class GraphText(tf.Module):
    """A vocabulary as part of an exported model."""

    def __init__(self, vocabulary: AnyVocabulary) -> None:
        super().__init__()
        self._tokenizer = _tokenizer(vocabulary)
        self._shown = _GraphShown(vocabulary) if isinstance(vocabulary, ImportedVocabulary) else None
        self._size, self._unknown = vocabulary.size, vocabulary.unknown
        # As `Vocabulary.line` does.
        self._break = ("\n" if vocabulary.keeps_line_breaks else " ") if isinstance(vocabulary, Vocabulary) else None
        # As tensor2tensor's t2t-decoder does.
        self._strips = isinstance(vocabulary, ImportedVocabulary) and not isinstance(vocabulary, OpenNmtVocabulary)

    def encode(self, texts: Any, max_length: int) -> Any:
        """string [B] -> ragged int32 [B, N]: at most `max_length` pieces, the last one EOS; none for a blank text.

        Bytes that are no UTF-8 become U+FFFD, which is an unknown piece unless the vocabulary can write it.
        """
        texts = utf_8(tf.strings.substr(texts, 0, min(max_length * _BYTES_PER_PIECE, tf.int32.max)))
        texts = tf.where(tf.strings.regex_full_match(texts, BLANK), "", texts)
        if self._break is not None:
            texts = tf.strings.regex_replace(texts, "\r\n" if self._break == "\n" else BREAKS, self._break)
        if self._strips:
            texts = tf.strings.regex_replace(texts, f"^{WHITE_SPACE}+|{WHITE_SPACE}+$", "")
        return _ended(self._tokenizer.tokenize(texts), max_length)

    def clean(self, ids: Any, max_length: int) -> Any:
        """int32 [B, N] -> ragged int32 [B, N] as `encode` gives: PAD and EOS left out.

        Ids that do not exist become the unknown piece; where a vocabulary has none, they are left out.
        """
        unknown = PAD if self._unknown is None else self._unknown
        ids = tf.where((ids >= 0) & (ids < self._size), ids, unknown)
        return _ended(tf.ragged.boolean_mask(ids, (ids != PAD) & (ids != EOS)), max_length)

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
        """int32 [B, N] -> string [B, N]: the pieces, EOS included, as the vocabulary's `shown`; "" for PAD."""
        names = self._shown(ids) if self._shown else self._tokenizer.id_to_string(ids)
        return tf.where(tf.equal(ids, PAD), "", names)


class _GraphShown(tf.Module):
    """`ImportedVocabulary.shown` in a graph."""

    def __init__(self, vocabulary: ImportedVocabulary) -> None:
        super().__init__()
        names, ends = zip(*map(vocabulary.shown_name, vocabulary.pieces(range(vocabulary.size))), strict=True)
        self._names, self._ends = tf.constant(names), tf.constant(ends)

    def __call__(self, ids: Any) -> Any:
        """int32 [B, N] -> string [B, N]; ids that exist."""
        names = tf.gather(self._names, ids)
        begins = tf.concat([tf.ones_like(ids[:, :1], tf.bool), tf.gather(self._ends, ids[:, :-1])], 1)
        marked = tf.equal(tf.strings.substr(names, 0, len(WORD_START.encode())), WORD_START)
        names = tf.strings.join([tf.where(begins & ~marked, WORD_START, ""), names])
        return tf.where(tf.equal(ids, EOS), END_SHOWN, names)


def _tokenizer(vocabulary: AnyVocabulary) -> Any:
    if isinstance(vocabulary, Vocabulary):
        return sentencepiece_tokenizer(vocabulary)
    return _IN_GRAPH[type(vocabulary)](vocabulary)


def sentencepiece_tokenizer(vocabulary: Vocabulary) -> Any:
    """Returns the TensorFlow Text tokenizer of `vocabulary`: string tensors to int32 ids, equal to `encode`."""
    import tensorflow_text

    # TensorFlow finds a loaded model's vocabulary by this name. The default name is the same for all models, so a
    # process would use the first vocabulary in place of every other. (The ids' type is int32 by default.)
    name = f"vocabulary_{vocabulary.checksum[:32]}"
    return tensorflow_text.SentencepieceTokenizer(model=vocabulary.data, name=name)


def utf_8(texts: Any) -> Any:
    return tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")


def _ended(ids: Any, max_length: int) -> Any:
    ends = tf.fill([ids.nrows()], EOS)[:, None]
    ends = tf.ragged.boolean_mask(ends, ids.row_lengths()[:, None] > 0)
    return tf.concat([ids[:, : max_length - 1], ends], axis=1)
