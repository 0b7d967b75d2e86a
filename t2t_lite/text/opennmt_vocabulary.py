"""Token vocabulary of OpenNMT-tf: tokens separated by white space, made by an external tokenizer.

Only ASCII white space counts (tokenizers/tokenizer.py of 2.32.0: SpaceTokenizer, tf.strings.split): a token may hold a
no-break space or another Unicode space.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from t2t_lite.errors import DataError
from t2t_lite.text.any_vocabulary import WORD_START
from t2t_lite.text.imported_vocabulary import ImportedVocabulary, lines_of, shown_token

SPECIAL = ("<blank>", "<s>", "</s>")  # its first ids: constants.py of 2.32.0
UNKNOWN_TOKEN = "<unk>"  # has the id after the last one in the file; it has no line of its own

_TOKEN = re.compile(r"[^\t-\r ]+")
_WHAT = "a vocabulary of OpenNMT-tf"


class OpenNmtVocabulary(ImportedVocabulary):
    """A vocabulary of OpenNMT-tf; the end symbol has the id 1 here and 2 there, the start symbol 2 here and 1 there.

    The names of special tokens are unknown words in a text.

    Args:
        data: the file's bytes: a token on each line, the first three those of SPECIAL.

    Raises:
        DataError: the file is not such a vocabulary, or holds a token twice.
    """

    suffix = ".opennmt"

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.tokens = [line.removesuffix("\r") for line in lines_of(data, _WHAT)]
        if tuple(self.tokens[: len(SPECIAL)]) != SPECIAL:
            raise DataError(
                f"The file begins with {', '.join(map(repr, self.tokens[:3]))}; {_WHAT} begins with "
                f"{', '.join(map(repr, SPECIAL))}."
            )
        self.unknown: int = len(self.tokens)
        padding, start, end, *words = self.tokens
        self._pieces = [padding, end, start, *words, UNKNOWN_TOKEN]
        self._marked = any(word.startswith(WORD_START) for word in words)  # by SentencePiece, which made the tokens
        self.ids = {word: i for i, word in enumerate(words, len(SPECIAL))}
        if len(self.ids) < len(words):
            twice = Counter(words).most_common(1)[0][0]
            raise DataError(f"The token {twice!r} stands in two lines of the vocabulary; each has one.")

    @property
    def size(self) -> int:
        return len(self._pieces)

    def line(self, text: str) -> str:
        """Returns a line of text as it is."""
        return text

    def encode(self, text: str) -> list[int]:
        """Returns the ids of the tokens separated by ASCII white space, without EOS."""
        return [self.ids.get(token, self.unknown) for token in _TOKEN.findall(text)]

    def text_of(self, ids: Iterable[int]) -> str:
        """Returns the tokens of all `ids`, separated by spaces."""
        return " ".join(self.pieces(ids))

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Returns the token of each id; "ID_7" if there is no id 7."""
        return [self._pieces[i] if 0 <= i < self.size else f"ID_{i}" for i in map(int, ids)]

    def shown_name(self, piece: str) -> tuple[str, bool]:
        """As `ImportedVocabulary.shown_name`; pieces of SentencePiece have its mark already."""
        return (piece, False) if self._marked else shown_token(piece)
