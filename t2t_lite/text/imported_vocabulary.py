"""Base class of vocabularies of other toolkits, and what reading their files has in common."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Sequence

from t2t_lite.errors import DataError
from t2t_lite.ids import EOS
from t2t_lite.text.any_vocabulary import WORD_START, AnyVocabulary

END_SHOWN = "</s>"  # SentencePiece's name of EOS
_CONTINUED = "@@"  # subword-nmt's mark at the end of a token that the next one continues
_SHOWN = 40  # characters of a line in a message


class ImportedVocabulary(AnyVocabulary):
    """A vocabulary of another toolkit: `encode` and `text_of` do the same as that toolkit's own encode and decode.

    So `text_of` may write PAD and EOS as their names.
    """

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
