"""Vocabulary files of tensor2tensor and OpenNMT-tf: how their kind is recognised."""

from __future__ import annotations

import os
from pathlib import Path

from t2t_lite.data import vocabulary_files
from t2t_lite.errors import DataError
from t2t_lite.importers.vocabularies import (
    UNKNOWN_TOKENS,
    ByteVocabulary,
    ImportedVocabulary,
    OpenNmtVocabulary,
    SubwordVocabulary,
    TokenVocabulary,
)

_OPENNMT = b"<blank>"  # how such a file begins
_WORD_ENDS = 0.05  # share of pieces that end a word, above which they are subwords; half in tensor2tensor's own files
BYTES = "bytes"  # instead of a file's name: tensor2tensor has no file of its ByteTextEncoder


def load(path: str | os.PathLike[str]) -> ImportedVocabulary:
    """Reads a vocabulary file of tensor2tensor or OpenNMT-tf; if its name does not say the kind, its content does.

    Args:
        path: of the file, or BYTES.

    Raises:
        DataError: there is no such vocabulary, it is damaged, or several tokens of it may stand for unknown words.
    """
    if os.fspath(path) == BYTES:
        return ByteVocabulary()
    if os.path.isfile(path):
        with open(path, "rb") as file:
            if file.read(len(_OPENNMT)) == _OPENNMT:
                return OpenNmtVocabulary.load(path)
    kind = vocabulary_files.kind(Path(path).suffix)
    found = kind.load(path) if issubclass(kind, ImportedVocabulary) else _load_unnamed(path)
    if isinstance(found, TokenVocabulary):
        unknown = [token for token in UNKNOWN_TOKENS if token in found.ids]
        if len(unknown) > 1:
            raise DataError(
                f"This token vocabulary holds {' and '.join(map(repr, unknown))}, and which of them stands for words "
                "that it does not hold is not known. Rename the lines of the others, such as 'UNK' to 'UNK_'."
            )
    return found


def _load_unnamed(path: str | os.PathLike[str]) -> ImportedVocabulary:
    """Reads a file such as vocab.encs.32768, from before 1.4, or vocab.bpe.32000."""
    try:
        tokens = TokenVocabulary.load(path)
    except DataError:
        return SubwordVocabulary.load(path)
    try:
        subwords = SubwordVocabulary.load(path)
    except DataError:
        return tokens
    return subwords if _ends_words(subwords) else tokens


def _ends_words(subwords: SubwordVocabulary) -> bool:
    """Whether many pieces end a word, as "the_" does; in a file of tokens few do, even if it holds every character."""
    pieces = subwords.pieces(range(subwords.size))
    return sum(len(piece) > 1 and piece.endswith("_") for piece in pieces) > _WORD_ENDS * len(pieces)
