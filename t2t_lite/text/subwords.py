r"""Subword vocabulary of tensor2tensor: its SubwordTextEncoder's files, ids and texts.

trax and the official models of TensorFlow's model garden have files of the same form. A text is cut into tokens: runs
of letters and digits, and runs of all other characters. A token is escaped ("_" as \u, "\" as \\, a character without a
piece as \CODE;), gets a "_" at its end, and is cut into the longest pieces from the left. So every text can be encoded
without an unknown piece, and decoding the ids gives the text back.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable

from t2t_lite.errors import DataError
from t2t_lite.text.any_vocabulary import WORD_START
from t2t_lite.text.imported_vocabulary import ImportedVocabulary, check_first, lines_of

ESCAPES = frozenset("\\_u;0123456789")  # the characters that escapes are written in
IMPOSSIBLE = "\u3013"  # what an escaped code point that belongs to no character is decoded as

_WHAT = "a subword vocabulary of tensor2tensor"
# \w is "_" and the categories L* and N*, which tensor2tensor uses: tests/text/test_subwords.py compares them all.
_TOKENS = re.compile(r"[^\W_]+|[\W_]+")
_ESCAPED = re.compile(r"\\u|\\\\|\\([0-9]+);")
_CACHED_TOKENS = 1 << 18


class SubwordVocabulary(ImportedVocabulary):
    """A subword vocabulary, equal to tensor2tensor's SubwordTextEncoder(FILE).

    Args:
        data: the file's bytes: a piece on each line, in quotes or not; its id is the line's number, from 0.

    Raises:
        DataError: the file is not such a vocabulary, or holds characters that are not pieces themselves, so that not
            every text could be encoded.
    """

    suffix = ".subwords"

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._pieces = [_unquoted(line) for line in lines_of(data, _WHAT)]
        check_first(self._pieces, _WHAT)
        self.ids = {piece: i for i, piece in enumerate(self._pieces) if piece}  # of equal pieces the last one counts
        self.alphabet = ESCAPES.union(*self._pieces)
        if lacking := sorted(char for char in self.alphabet if char not in self.ids):
            shown = ", ".join(map(repr, lacking[:8])) + (", ..." if len(lacking) > 8 else "")
            raise DataError(
                f"This subword vocabulary has no pieces for {len(lacking)} single characters ({shown}), with which it "
                "cannot encode every text: it is cut off or damaged. Copy the file again."
            )
        self.longest = max(map(len, self._pieces))
        self._cache: dict[str, list[int]] = {}

    @property
    def size(self) -> int:
        return len(self._pieces)

    def padded(self, size: int) -> SubwordVocabulary:
        """As `ImportedVocabulary.padded`, with empty pieces."""
        data = self.data if self.data.endswith(b"\n") else self.data + b"\n"
        return SubwordVocabulary(data + b"''\n" * (size - self.size)) if size > self.size else self

    def encode(self, text: str) -> list[int]:
        """Returns the ids of a text as it is, without EOS; "" has none."""
        ids: list[int] = []
        for token in tokens(text):
            found = self._cache.get(token)
            if found is None:
                found = self._ids_of(escape(token, self.alphabet))
                if len(self._cache) >= _CACHED_TOKENS:
                    self._cache.clear()
                self._cache[token] = found
            ids += found
        return ids

    def _ids_of(self, escaped: str) -> list[int]:
        """Ids of the longest pieces from the left; each single character is a piece, so one is always found."""
        found, start = [], 0
        while start < len(escaped):
            end = min(len(escaped), start + self.longest)
            while (piece := self.ids.get(escaped[start:end])) is None:
                end -= 1
            found.append(piece)
            start = end
        return found

    def text_of(self, ids: Iterable[int]) -> str:
        """Returns the text of all `ids`, as tensor2tensor's decode; an id that does not exist gives no text.

        An escaped code point that belongs to no character becomes U+3013; this includes halves of surrogate pairs.
        """
        escaped = "".join(self.pieces(ids)).split("_")
        words = [word for word in (_ESCAPED.sub(_unescaped, token) for token in escaped if token) if word]
        spaced = [words[0]] if words else []
        for before, word in itertools.pairwise(words):
            spaced.append(f" {word}" if before[0].isalnum() and word[0].isalnum() else word)
        return "".join(spaced)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Returns the piece of each id, as it stands in the file; "" for an id that does not exist."""
        return [self._pieces[i] if 0 <= i < self.size else "" for i in map(int, ids)]

    def shown_name(self, piece: str) -> tuple[str, bool]:
        """As `ImportedVocabulary.shown_name`; a token counts as a word, and "_" alone, its end, keeps its name."""
        name = piece.removesuffix("_").replace(" ", WORD_START)
        return name.rstrip(WORD_START) or name[:1] or piece, piece.endswith("_")


def tokens(text: str) -> list[str]:
    """Runs of letters and digits, and runs of all other characters; a single space between two runs is left out."""
    found = _TOKENS.findall(text)
    return found[:1] + [token for token in found[1:-1] if token != " "] + found[1:][-1:]


def escape(token: str, alphabet: frozenset[str]) -> str:
    r"""The escaped token: "_" as \u, "\" as \\, characters not in `alphabet` as \CODE;, and "_" at its end."""
    token = token.replace("\\", "\\\\").replace("_", "\\u")
    return "".join(char if char in alphabet and char != "\n" else f"\\{ord(char)};" for char in token) + "_"


def _unescaped(match: re.Match[str]) -> str:
    if match[1] is None:
        return "_" if match[0] == "\\u" else "\\"
    digits = match[1].lstrip("0") or "0"
    code = int(digits) if len(digits) < 8 else -1
    return chr(code) if 0 <= code < 0xD800 or 0xE000 <= code < 0x110000 else IMPOSSIBLE


def _unquoted(line: str) -> str:
    piece = line.rstrip()
    return piece[1:-1] if piece[:1] in ("'", '"') and piece.endswith(piece[:1]) else piece
