"""Base class of all vocabularies: text to piece ids and back, and the file that a vocabulary is kept in."""

import abc
import functools
import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar, Self

from t2t_lite.errors import DataError
from t2t_lite.files import StrPath, replace_file
from t2t_lite.ids import EOS, PAD

WORD_START = "\u2581"  # SentencePiece's mark for a space, with which pieces begin that begin a word


class AnyVocabulary(abc.ABC):
    """A vocabulary of any kind, with the ids PAD and EOS.

    Args:
        data: the bytes of the vocabulary's file.

    Raises:
        DataError: the file is not such a vocabulary, or is damaged.
    """

    suffix: ClassVar[str]  # of the name of its file in a run's folder
    unknown: int | None = None  # id of the piece for text without a piece, if there is one
    labels: Sequence[str] = ()  # of target languages; a source line must begin with one of them (labels.py)

    def __init__(self, data: bytes) -> None:
        self.data = data

    @classmethod
    def load(cls, path: StrPath) -> Self:
        """Reads a vocabulary file; DataError, with the path, if it is missing or damaged."""
        try:
            return cls(Path(path).read_bytes())
        except FileNotFoundError:
            raise DataError(f"{path}: there is no such vocabulary file.") from None
        except OSError as error:
            raise DataError(f"{path}: this vocabulary file cannot be read ({error.strerror}).") from error
        except DataError as error:
            raise DataError(f"{path}: {error}") from error

    def save(self, path: StrPath) -> None:
        """Writes the file, byte for byte as it was read or trained; it is there whole or not at all."""
        replace_file(Path(path), self.data)

    @functools.cached_property
    def checksum(self) -> str:
        """SHA-256 of the file, in hexadecimal."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """Number of ids, PAD and EOS included."""

    @functools.cached_property
    def keeps_line_breaks(self) -> bool:
        """Whether a line break in a text comes back."""
        return self.unknown not in self.encode("\n") and "\n" in self.decode(self.encode("-\n-"))

    @abc.abstractmethod
    def line(self, text: str) -> str:
        """Returns a line of text as training and decoding encode it."""

    @abc.abstractmethod
    def encode(self, text: str) -> list[int]:
        """Returns the ids of a text as it is, without EOS."""

    @property
    def sentencepiece(self) -> bytes | None:
        """The SentencePiece model that cuts text into the pieces, whatever ids they have there; None: there is none."""
        return None

    @property
    def replacements(self) -> Sequence[tuple[str, str]]:
        """Regular expressions, and what replaces each, in a text before it is cut."""
        return ()

    def encode_many(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns the ids of each line, without EOS."""
        return [self.encode(line) for line in lines]

    def source_line(self, text: str) -> str:
        """Returns a source line as training and decoding encode it; DataError without a label where it needs one."""
        return self.line(text)

    def encode_source(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns the ids of each source line, without EOS; a label at its start is one id."""
        return self.encode_many(lines)

    def unknown_symbols(self, text: str) -> list[str]:
        """Returns what the unknown pieces of a text stand for; here words."""
        return [word for word in text.split() if self.unknown in self.encode(word)]

    @abc.abstractmethod
    def text_of(self, ids: Iterable[int]) -> str:
        """Returns the text of all `ids`."""

    def decode(self, ids: Iterable[int]) -> str:
        """Returns the text of `ids` up to the first EOS, PAD left out."""
        return self.text_of(_before_end(ids))

    @abc.abstractmethod
    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Returns the piece of each id, special ones included."""

    @abc.abstractmethod
    def display_pieces(self, ids: Iterable[int]) -> list[str]:
        """Returns the pieces as pages and pictures of the attention take them: named as SentencePiece names its own."""


def _before_end(ids: Iterable[int]) -> list[int]:
    """Returns `ids` up to the first EOS, PAD left out."""
    kept = []
    for i in ids:
        if i == EOS:
            break
        if i != PAD:
            kept.append(int(i))
    return kept
