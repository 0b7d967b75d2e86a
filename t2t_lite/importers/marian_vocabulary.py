"""Vocabulary of a Marian model, and SentencePiece models that cut text into its pieces.

A list of pieces serves both sides; each side has a SentencePiece model of its own. A piece is looked up by its text, as
Marian does: text that a side's model does not know may be a piece of the other side.
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import sentencepiece

from t2t_lite.errors import DataError
from t2t_lite.files import json_text
from t2t_lite.ids import PAD, UNK
from t2t_lite.registry import VOCABULARIES
from t2t_lite.text.any_vocabulary import WORD_START, AnyVocabulary
from t2t_lite.text.labels import missing_label, split_label
from t2t_lite.text.line_breaks import breaks_as_spaces

FORMAT = 1
SPECIAL = ("</s>", "<unk>")  # Marian's first pieces; no text is cut into them here, and there text "</s>" ends a line
PADDING = "<pad>"  # has no id in Marian
_PIECE = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^"'].*?):\s+(\d{1,9})""")
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_LONGEST = 4096  # characters of a line
_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)")
_ESCAPES = dict(zip("0abtnvfre", "\0\a\b\t\n\v\f\r\x1b", strict=True)) | dict(
    zip("N_LP", "\x85\xa0\u2028\u2029", strict=True)
)


@VOCABULARIES.register(".marian")
class MarianVocabulary(AnyVocabulary):
    """Pieces of a Marian model, in the order of their ids, and how one side's text is cut into them.

    Args:
        data: JSON, as `make` writes it.

    Raises:
        DataError: it is damaged.
    """

    suffix = ".marian"
    unknown = UNK

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        try:
            found = json.loads(data)
            if found["format"] != FORMAT:
                raise ValueError(f"format {found['format']}")
            self.model = base64.b64decode(found["sentencepiece"])
            self.cleaning = [(pattern, text) for pattern, text in found["cleaning"]]
            self.labels: tuple[str, ...] = tuple(found["labels"])
            self._pieces: list[str] = [PADDING, *SPECIAL, *found["pieces"]]
            self._rules = [(re.compile(pattern), text) for pattern, text in self.cleaning]
            self._processor = load_sentencepiece(self.model)
            self.texts = [self._text(piece) for piece in self._pieces]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, re.error) as error:
            raise DataError(f"This file of a Marian vocabulary is damaged ({error}).") from error
        self.ids = {piece: i for i, piece in enumerate(self._pieces) if i > UNK}

    @classmethod
    def make(
        cls, pieces: Sequence[str], model: bytes, cleaning: Sequence[tuple[str, str]] = (), labels: Sequence[str] = ()
    ) -> MarianVocabulary:
        """Makes a vocabulary.

        Args:
            pieces: by Marian's ids; the first are SPECIAL.
            model: a SentencePiece model.
            cleaning: regular expressions, for Python and RE2, and what replaces each, before text is cut.
            labels: pieces of which a line must begin with one.
        """
        found = {
            "format": FORMAT,
            "pieces": list(pieces[len(SPECIAL) :]),
            "labels": list(labels),
            "cleaning": list(map(list, cleaning)),
            "sentencepiece": base64.b64encode(model).decode(),
        }
        return cls(json_text(found, indent=2).encode())

    @property
    def size(self) -> int:
        return len(self._pieces)

    @property
    def sentencepiece(self) -> bytes:
        return self.model

    @property
    def replacements(self) -> Sequence[tuple[str, str]]:
        return self.cleaning

    def line(self, text: str) -> str:
        """Returns a line as the model's preprocessing changes it: after its label, if the model has labels.

        Raises:
            DataError: the model has labels, and the line does not begin with one of them.
        """
        label, rest = split_label(breaks_as_spaces(text), self.labels)
        if self.labels and not label and text.strip():
            raise missing_label(text, self.labels)
        for pattern, replacement in self._rules:
            rest = pattern.sub(replacement, rest)
        return f"{label} {rest}" if label else rest

    def encode(self, text: str) -> list[int]:
        """Returns the ids of a line, without EOS; a known label at its start is one id."""
        label, rest = split_label(text, self.labels)
        pieces = [label] if label else []
        return [self.ids.get(piece, UNK) for piece in (*pieces, *self._processor.encode(rest, out_type=str))]

    def _text(self, piece: str) -> bytes:
        """The text of a piece in UTF-8, or the byte that it stands for in a SentencePiece model with byte_fallback."""
        if (byte := _BYTE.fullmatch(piece)) and self._processor.is_byte(self._processor.piece_to_id(piece)):
            return bytes.fromhex(byte[1])
        return piece.replace(WORD_START, " ").encode()

    def text_of(self, ids: Iterable[int]) -> str:
        """Returns the text of all `ids`, as Marian's users join pieces; U+FFFD stands for bytes of no character."""
        return b"".join(self.texts[i] for i in self._known(ids)).decode(errors="replace").lstrip(" ")

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Returns the piece of each id; that of PAD for an id that does not exist."""
        return [self._pieces[i] for i in self._known(ids)]

    def _known(self, ids: Iterable[int]) -> list[int]:
        return [i if 0 <= i < self.size else PAD for i in map(int, ids)]

    def display_pieces(self, ids: Iterable[int]) -> list[str]:
        """Returns the pieces."""
        return self.pieces(ids)


def load_sentencepiece(data: bytes) -> Any:
    """Returns the processor of a SentencePiece model; DataError if it is damaged."""
    try:
        if not data:
            raise ValueError("no bytes")  # SentencePiece would wait for a later load
        model = sentencepiece.SentencePieceProcessor(model_proto=data)
        model.id_to_piece(list(range(len(model))))  # fails if the text of a piece cannot be decoded
        return model
    except (RuntimeError, OSError, ValueError) as error:
        raise DataError("This is not a SentencePiece model, or it is damaged.") from error


def read_pieces(data: bytes, name: str, size: int) -> list[str]:
    """Returns the pieces of a vocabulary file of Marian, by id: a line `"piece": id` for each.

    A reader of YAML would make numbers of some pieces, and dates of others.

    Args:
        name: of the file, for messages.
        size: how many pieces the model has.

    Raises:
        DataError: it is damaged, or of another model.
    """
    pieces: dict[int, str] = {}
    try:
        lines = data.decode().removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{name} is no UTF-8 text.") from error
    for number, line in enumerate(lines[: size + 1], 1):
        match = _PIECE.fullmatch(line[:_LONGEST].removesuffix("\r"))
        if not match or int(match[2]) in pieces:
            raise DataError(
                f"{name}: line {number} is no line '\"piece\": id' of a vocabulary, or has the id of another."
            )
        pieces[int(match[2])] = _unquote(match[1])
    if sorted(pieces) != list(range(size)):
        raise DataError(f"{name} has {len(lines):,} pieces, and the model {size:,}: it is of another model.")
    found = [pieces[i] for i in range(size)]
    check_pieces(found, name)
    return found


def check_pieces(pieces: Sequence[str], name: str) -> None:
    """Raises DataError unless the first pieces are SPECIAL, each stands there once, and all are text."""
    if tuple(pieces[: len(SPECIAL)]) != SPECIAL:
        raise DataError(f"{name} begins with {pieces[:2]}; a vocabulary of Marian begins with {list(SPECIAL)}.")
    if len(set(pieces)) < len(pieces):
        twice = Counter(pieces).most_common(1)[0][0]
        raise DataError(f"{name} has the piece {twice!r} twice; each has one id.")
    if any("\ud800" <= character <= "\udfff" for piece in pieces for character in piece):
        raise DataError(f"{name} has a piece that is no text.")


def _unquote(piece: str) -> str:
    if piece[0] == "'":
        return piece[1:-1].replace("''", "'")
    return _ESCAPE.sub(_unescape, piece[1:-1]) if piece[0] == '"' else piece


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    if len(code) == 1:
        return _ESCAPES.get(code, code)
    number = int(code[1:], 16)
    return chr(number) if number <= 0x10FFFF else "\ud800"  # no text, either
