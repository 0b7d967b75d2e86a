"""Vocabularies of other toolkits inside a graph: in core TensorFlow, and one TensorFlow Text operation for subwords.

Legend: B texts, N ids of a text, C characters of all texts, W tokens of all texts.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

import numpy as np
import tensorflow as tf

from t2t_lite.export.lookup_ops import GraphLookup
from t2t_lite.export.text_ops import WHITE_SPACE
from t2t_lite.ids import EOS
from t2t_lite.importers.vocabularies import (
    END_SHOWN,
    IMPOSSIBLE,
    ByteVocabulary,
    ImportedVocabulary,
    OpenNmtVocabulary,
    SubwordVocabulary,
    TokenVocabulary,
)
from t2t_lite.registry import VOCABULARY_OPS
from t2t_lite.text.any_vocabulary import WORD_START

_MAX_CODE = 0x10FFFF
_SURROGATES = (0xD800, 0xDFFF)  # halves of pairs, which are no characters
_MAX_DIGITS = 7  # of a code point, leading zeros left out
_NO_LIMIT = 2**31 - 1  # bytes of a token


class _GraphVocabulary(tf.Module):
    """What the vocabularies of other toolkits have in common in a graph; texts are valid UTF-8."""

    def __init__(self, vocabulary: ImportedVocabulary) -> None:
        super().__init__()
        names, ends = zip(*map(vocabulary.shown_name, vocabulary.pieces(range(vocabulary.size))), strict=True)
        self._names, self._ends = tf.constant(names), tf.constant(ends)
        self._pieces, self._numbered = tf.constant(vocabulary.pieces(range(vocabulary.size))), bool(vocabulary.missing)

    def line(self, texts: Any) -> Any:
        """string [B] -> string [B], stripped, as tensor2tensor's t2t-decoder does."""
        return tf.strings.regex_replace(texts, f"^{WHITE_SPACE}+|{WHITE_SPACE}+$", "")

    def id_to_string(self, ids: Any) -> Any:
        """int32 of any shape -> string, as `ImportedVocabulary.pieces`."""
        there = (ids >= 0) & (ids < tf.size(self._pieces))
        missing = tf.strings.join(["ID_", tf.strings.as_string(ids)]) if self._numbered else ""
        return tf.where(there, tf.gather(self._pieces, tf.where(there, ids, 0)), missing)

    def display_pieces(self, ids: Any) -> Any:
        """int32 [B, N] -> string [B, N], as `ImportedVocabulary.display_pieces`; ids that exist."""
        names = tf.gather(self._names, ids)
        begins = tf.concat([tf.ones_like(ids[:, :1], tf.bool), tf.gather(self._ends, ids[:, :-1])], 1)
        marked = tf.equal(tf.strings.substr(names, 0, len(WORD_START.encode())), WORD_START)
        names = tf.strings.join([tf.where(begins & ~marked, WORD_START, ""), names])
        return tf.where(tf.equal(ids, EOS), END_SHOWN, names)


@VOCABULARY_OPS.register(".tokens")
class GraphTokens(_GraphVocabulary):
    """A token vocabulary as part of an exported model; texts are valid UTF-8."""

    def __init__(self, vocabulary: TokenVocabulary | OpenNmtVocabulary) -> None:
        super().__init__(vocabulary)
        self._lookup = GraphLookup(list(vocabulary.ids))
        self._ids = tf.constant(list(vocabulary.ids.values()), tf.int32)
        self._unknown = vocabulary.unknown

    def tokenize(self, texts: Any) -> Any:
        """string [B] -> ragged int32 [B, N], as `encode`."""
        tokens = self.cut(texts)
        place, found = self._lookup(tokens.flat_values)
        return tokens.with_flat_values(tf.where(found, tf.gather(self._ids, place), self._unknown))

    def cut(self, texts: Any) -> Any:
        """string [B] -> ragged string [B, N]: the tokens between white space of any kind."""
        return tf.strings.split(tf.strings.regex_replace(texts, f"{WHITE_SPACE}+", " "))

    def detokenize(self, ids: Any) -> Any:
        """Ragged int32 [B, N] -> string [B], as `text_of`."""
        return tf.strings.reduce_join(tf.ragged.map_flat_values(self.id_to_string, ids), axis=1, separator=" ")


@VOCABULARY_OPS.register(".opennmt")
class GraphOpenNmt(GraphTokens):
    """A vocabulary of OpenNMT-tf as part of an exported model; its lines are not stripped."""

    def line(self, texts: Any) -> Any:
        return texts

    def cut(self, texts: Any) -> Any:
        return tf.strings.split(texts)


@VOCABULARY_OPS.register(".bytes")
class GraphBytes(_GraphVocabulary):
    """A byte vocabulary as part of an exported model; texts are valid UTF-8."""

    def __init__(self, vocabulary: ByteVocabulary) -> None:
        super().__init__(vocabulary)
        self._first = vocabulary.size - 256  # the id of byte 0
        self._bytes = tf.constant([*vocabulary.bytes, b""])

    def tokenize(self, texts: Any) -> Any:
        """string [B] -> ragged int32 [B, N], as `encode`."""
        single = tf.strings.bytes_split(texts)
        values = tf.reshape(tf.io.decode_raw(single.flat_values, tf.uint8), [-1])
        return single.with_flat_values(tf.cast(values, tf.int32) + self._first)

    def detokenize(self, ids: Any) -> Any:
        """Ragged int32 [B, N] -> string [B], as `text_of`."""
        flat, size = ids.flat_values, tf.size(self._bytes) - 1
        found = ids.with_flat_values(tf.gather(self._bytes, tf.where((flat >= 0) & (flat < size), flat, size)))
        joined = tf.strings.reduce_join(found, axis=1)
        return tf.strings.unicode_transcode(joined, "UTF-8", "UTF-8", errors="replace")


@VOCABULARY_OPS.register(".subwords")
class GraphSubwords(_GraphVocabulary):
    """A subword vocabulary as part of an exported model.

    The Python that exports decides whether a character is a letter or digit.
    """

    def __init__(self, vocabulary: SubwordVocabulary) -> None:
        import tensorflow_text

        super().__init__(vocabulary)
        self._letters = tf.constant(_edges_of_letters())
        self._alphabet = tf.constant(sorted(map(ord, vocabulary.alphabet)), tf.int32)
        self._table = tf.lookup.StaticHashTable(_Pieces(vocabulary), default_value=-1)
        self._wordpiece = tensorflow_text.WordpieceTokenizer(
            self._table,
            suffix_indicator="",  # a piece inside a token looks like one at its start
            max_bytes_per_word=_NO_LIMIT,
            max_chars_per_token=vocabulary.longest,
            unknown_token=None,  # there is none: each single character has a piece
        )

    def tokenize(self, texts: Any) -> Any:
        """string [B] -> ragged int32 [B, N], as `encode`; bytes that are no UTF-8 count as U+FFFD."""
        codes = tf.strings.unicode_decode(texts, "UTF-8", errors="replace")
        flat, text_of_char = codes.flat_values, codes.value_rowids()
        letter = self._is_letter(flat)
        first = _differs_from_last(text_of_char)  # of its text; bool [C]
        starts = first | _differs_from_last(letter)
        text_of_token = tf.boolean_mask(text_of_char, starts)
        characters = tf.RaggedTensor.from_value_rowids(
            self._escape(flat), tf.cumsum(tf.cast(starts, tf.int64)) - 1, nrows=tf.size(text_of_token, tf.int64)
        )
        tokens = tf.strings.reduce_join(characters, axis=1)
        inner = ~tf.boolean_mask(first, starts) & ~tf.roll(_differs_from_last(text_of_token), -1, 0)
        there = ~(inner & tf.equal(tokens, " "))  # a single space between two tokens is not written
        ids = self._wordpiece.tokenize(tf.boolean_mask(tokens, there) + "_")
        by_text = tf.RaggedTensor.from_value_rowids(ids, tf.boolean_mask(text_of_token, there), nrows=codes.nrows())
        return tf.cast(by_text.merge_dims(1, 2), tf.int32)

    def detokenize(self, ids: Any) -> Any:
        """Ragged int32 [B, N] -> string [B], as `text_of`."""
        escaped = tf.strings.reduce_join(tf.ragged.map_flat_values(self.id_to_string, ids), axis=1)
        words, text_of_word = _there(tf.strings.split(escaped, "_"))
        words, text_of_word = _there(tf.RaggedTensor.from_value_rowids(_unescape(words), text_of_word, ids.nrows()))
        heads = tf.strings.unicode_decode(tf.strings.substr(words, 0, 1, "UTF8_CHAR"), "UTF-8").flat_values
        letter = self._is_letter(heads)
        before = tf.concat([tf.zeros_like(letter[:1]), letter[:-1]], 0)
        spaces = tf.where(~_differs_from_last(text_of_word) & letter & before, " ", "")
        return tf.strings.reduce_join(
            tf.RaggedTensor.from_value_rowids(spaces + words, text_of_word, ids.nrows()), axis=1
        )

    def _is_letter(self, codes: Any) -> Any:
        return tf.equal(tf.searchsorted(self._letters, codes, side="right") % 2, 1)

    def _escape(self, codes: Any) -> Any:
        r"""int32 [C] -> string [C]: the character, or its escape; a space stays."""
        place = tf.minimum(tf.searchsorted(self._alphabet, codes), tf.size(self._alphabet) - 1)
        known = tf.equal(tf.gather(self._alphabet, place), codes)
        characters = tf.strings.unicode_encode(codes[:, None], "UTF-8")
        characters = tf.where(known, characters, tf.strings.join(["\\", tf.strings.as_string(codes), ";"]))
        characters = tf.where(tf.equal(codes, ord("\\")), "\\\\", characters)
        return tf.where(tf.equal(codes, ord("_")), "\\u", characters)


class _Pieces(tf.lookup.KeyValueTensorInitializer):
    """Piece -> id, under a name of its own.

    A process finds a loaded model's table by its name. TensorFlow's default name is a small number that two exports may
    share; then the second would use the first one's vocabulary.
    """

    def __init__(self, vocabulary: SubwordVocabulary) -> None:
        super().__init__(tf.constant([*vocabulary.ids]), tf.constant([*vocabulary.ids.values()], tf.int64))
        self._name_of_table = f"subwords_{vocabulary.checksum[:32]}"

    @property
    def _shared_name(self) -> str:
        return self._name_of_table


@functools.cache
def _edges_of_letters() -> Any:
    """int32: the code points at which letters and digits begin and end, alternately."""
    letters = [chr(code).isalnum() for code in range(sys.maxunicode + 1)]
    return np.flatnonzero(np.diff([False, *letters, False])).astype(np.int32)


def _unescape(words: Any) -> Any:
    r"""string [W] -> string [W]: \u, \\ and \CODE; become characters.

    No word holds "_", so it can mark where to cut before and after each escape.
    """
    parts = tf.strings.split(tf.strings.regex_replace(words, r"\\u|\\\\|\\[0-9]+;", r"_\0_"), "_")
    part = parts.flat_values
    is_code = tf.strings.regex_full_match(part, r"\\[0-9]+;")
    digits = tf.strings.regex_replace(tf.where(is_code, part, "\\0;"), r"\\0*([0-9]+);", r"\1")
    short = tf.strings.length(digits) <= _MAX_DIGITS
    code = tf.strings.to_number(tf.where(short, digits, "0"), tf.int32)
    possible = short & (code <= _MAX_CODE) & ((code < _SURROGATES[0]) | (code > _SURROGATES[1]))
    character = tf.strings.unicode_encode(tf.where(possible, code, ord(IMPOSSIBLE))[:, None], "UTF-8")
    part = tf.where(tf.equal(part, "\\u"), "_", tf.where(tf.equal(part, "\\\\"), "\\", part))
    return tf.strings.reduce_join(parts.with_flat_values(tf.where(is_code, character, part)), axis=1)


def _there(strings: Any) -> tuple[Any, Any]:
    """Ragged string [B, N] -> the strings that are not empty, and the row of each."""
    there = tf.not_equal(strings.flat_values, "")
    return tf.boolean_mask(strings.flat_values, there), tf.boolean_mask(strings.value_rowids(), there)


def _differs_from_last(values: Any) -> Any:
    """[N] -> bool [N]: whether each differs from the one before it; True for the first."""
    return tf.concat([tf.ones_like(values[:1], tf.bool), tf.not_equal(values[1:], values[:-1])], 0)
