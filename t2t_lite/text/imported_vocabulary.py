"""Base class of vocabularies of other toolkits: a file, PAD and EOS, white space that is stripped."""

from __future__ import annotations

import abc
import functools
import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar, Self

from t2t_lite.errors import DataError
from t2t_lite.files import replace_file
from t2t_lite.ids import EOS
from t2t_lite.text.vocabulary import WORD_START, before_end

END_SHOWN = "</s>"  # SentencePiece's name of EOS
_CONTINUED = "@@"  # subword-nmt's mark at the end of a token that the next one continues
_SHOWN = 40  # characters of a line in a message


class ImportedVocabulary(abc.ABC):
    """A vocabulary of another toolkit, with the methods of `text.vocabulary.Vocabulary`.

    `encode` and `text_of` do the same as that toolkit's own encode and decode; the text is taken as it is.

    Args:
        data: the bytes of the vocabulary's file.

    Raises:
        DataError: the file is not such a vocabulary, or is damaged.
    """

    suffix: ClassVar[str]  # of the name of its file in a run's folder
    unknown: int | None = None  # id of the piece for text without a piece, if there is one

    def __init__(self, data: bytes) -> None:
        self.data = data

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Reads a vocabulary file; DataError, with the path, if it is missing or damaged."""
        try:
            return cls(Path(path).read_bytes())
        except FileNotFoundError:
            raise DataError(f"{path}: there is no such vocabulary file.") from None
        except OSError as error:
            raise DataError(f"{path}: this vocabulary file cannot be read ({error.strerror}).") from error
        except DataError as error:
            raise DataError(f"{path}: {error}") from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the file that was read, byte for byte; it is there whole or not at all."""
        replace_file(Path(path), self.data)

    @functools.cached_property
    def checksum(self) -> str:
        """SHA-256 of the file, in hexadecimal."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """Number of ids, PAD and EOS included."""

    def padded(self, size: int) -> ImportedVocabulary:
        """Returns the vocabulary with ids added at its end, so that it has `size` ids.

        A model made with vocab_divisor has more ids than pieces; the added ids are decoded as in tensor2tensor.

        Raises:
            DataError: this kind of vocabulary has a fixed size.
        """
        raise DataError(f"This vocabulary has {self.size:,} ids always, and the model {size:,}.")

    def line(self, text: str) -> str:
        """Returns a line of text as training and decoding encode it: stripped, as t2t-datagen and t2t-decoder do."""
        return text.strip()

    @abc.abstractmethod
    def encode(self, text: str) -> list[int]:
        """Returns the ids of a text as it is, without EOS."""

    def encode_many(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns the ids of each line, without EOS."""
        return [self.encode(line) for line in lines]

    @abc.abstractmethod
    def text_of(self, ids: Iterable[int]) -> str:
        """Returns the text of all `ids`, as tensor2tensor's decode: PAD and EOS are written as their names."""

    def decode(self, ids: Iterable[int]) -> str:
        """Returns the text of `ids` up to the first EOS, PAD left out."""
        return self.text_of(before_end(ids))

    @abc.abstractmethod
    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Returns the piece of each id, special ones included."""

    def shown(self, ids: Iterable[int]) -> list[str]:
        """Returns the pieces as pages and pictures of the attention take them: named as SentencePiece names its own.

        WORD_START begins a piece that begins a word; EOS is END_SHOWN.
        """
        ids, found, begins = list(ids), [], True
        for i, piece in zip(ids, self.pieces(ids), strict=True):
            name, ends = self.shown_name(piece)
            mark = WORD_START if begins and not name.startswith(WORD_START) else ""
            found.append(END_SHOWN if i == EOS else mark + name)
            begins = ends
        return found

    @abc.abstractmethod
    def shown_name(self, piece: str) -> tuple[str, bool]:
        """Returns what `shown` writes for a piece inside a word, and whether the piece after it begins a word."""


def shown_token(token: str) -> tuple[str, bool]:
    """`shown_name` of a token between white space."""
    return token.removesuffix(_CONTINUED) or token, not token.endswith(_CONTINUED)


def lines_of(data: bytes, what: str) -> list[str]:
    """The lines of a vocabulary file, cut at newlines only: pieces may hold U+0085 and U+2028.

    Args:
        what: the kind of file, for messages: "a subword vocabulary of tensor2tensor".

    Raises:
        DataError: an empty file, or bytes that are not UTF-8.
    """
    if not data:
        raise DataError(f"The file is empty; {what} has a piece on each line.")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(f"Line {line} is not UTF-8 text, so this is not {what}.") from error
    return text.removesuffix("\n").split("\n")


def check_first(pieces: Sequence[str], what: str) -> None:
    """Raises DataError unless the first two pieces are PAD and EOS, by the names that tensor2tensor gives them."""
    found = [piece.removesuffix("_") for piece in pieces[: EOS + 1]]
    if found != ["<pad>", "<EOS>"]:
        shown = " and ".join(repr(piece[:_SHOWN]) for piece in pieces[: EOS + 1])
        raise DataError(
            f"The file begins with {shown}; {what} begins with '<pad>' and '<EOS>'. "
            "Its files are named vocab.PROBLEM.SIZE[.subwords] and lie in the folder given to t2t-datagen --data_dir."
        )
