"""Vocabularies of tensor2tensor and OpenNMT-tf: `encode` and `text_of` do the same as those toolkits' own."""

from __future__ import annotations

import abc
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import ClassVar, Self

from t2t_lite.errors import DataError
from t2t_lite.ids import EOS
from t2t_lite.registry import VOCABULARIES
from t2t_lite.text.any_vocabulary import WORD_START, AnyVocabulary

END_SHOWN = "</s>"  # SentencePiece's name of EOS
_CONTINUED = "@@"  # subword-nmt's mark at the end of a token that the next one continues
_SHOWN = 40  # characters of a line in a message

# replace_oov of tensor2tensor's problems: of translate_ende_wmt_bpe32k, of text2text_tmpdir_tokens, of dialogues;
# oov_token of CFQ (google-research/cfq).
UNKNOWN_TOKENS = ("UNK", "<UNK>", "<unk>", "<OOV>")

_RESERVED = (b"<pad>", b"<EOS>")
_BYTES_FILE = b"tensor2tensor ByteTextEncoder\n"

SPECIAL = ("<blank>", "<s>", "</s>")  # OpenNMT-tf's first ids: constants.py of 2.32.0
UNKNOWN_TOKEN = "<unk>"  # has the id after the last one in the file; it has no line of its own
_TOKEN = re.compile(r"[^\t-\r ]+")
_OPENNMT = "a vocabulary of OpenNMT-tf"

ESCAPES = frozenset("\\_u;0123456789")  # the characters that escapes are written in
IMPOSSIBLE = "\u3013"  # what an escaped code point that belongs to no character is decoded as
# \w is "_" and the categories L* and N*, which tensor2tensor uses: tests/importers/test_subwords.py compares them all.
_RUNS = re.compile(r"[^\W_]+|[\W_]+")
_ESCAPED = re.compile(r"\\u|\\\\|\\([0-9]+);")
_CACHED_TOKENS = 1 << 18


class ImportedVocabulary(AnyVocabulary):
    """A vocabulary of another toolkit: `encode` and `text_of` do the same as that toolkit's own encode and decode.

    So `text_of` may write PAD and EOS as their names.

    Attributes:
        missing: the piece of an id that does not exist; "{}" stands for the id.
    """

    missing: ClassVar[str] = ""

    def __init__(self, data: bytes, pieces: Sequence[str]) -> None:
        super().__init__(data)
        self._pieces = pieces

    @property
    def size(self) -> int:
        return len(self._pieces)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return [self._pieces[i] if 0 <= i < self.size else self.missing.format(i) for i in map(int, ids)]

    def pad(self, size: int) -> Self:
        """Returns the vocabulary with ids added at its end, so that it has `size` ids.

        A model made with vocab_divisor has more ids than pieces; the added ids are decoded as in tensor2tensor.

        Raises:
            DataError: this kind of vocabulary has a fixed size.
        """
        if size > self.size:
            raise DataError(f"This vocabulary has {self.size:,} ids always, and the model {size:,}.")
        return self

    def line(self, text: str) -> str:
        """Returns a line of text as training and decoding encode it: stripped, as t2t-datagen and t2t-decoder do."""
        return text.strip()

    def display_pieces(self, ids: Iterable[int]) -> list[str]:
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
        """The name of a piece inside a word in `display_pieces`, and whether the next piece begins a word."""


def split_lines(data: bytes, what: str) -> list[str]:
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


class _T2TFile(ImportedVocabulary):
    """A vocabulary that tensor2tensor keeps in a file, which begins with PAD and EOS.

    Attributes:
        what: the kind of file, for messages.
    """

    what: ClassVar[str]

    def __init__(self, data: bytes) -> None:
        pieces = [self._read_line(line) for line in split_lines(data, self.what)]
        super().__init__(data, pieces)
        if [piece.removesuffix("_") for piece in pieces[: EOS + 1]] != ["<pad>", "<EOS>"]:
            first = " and ".join(repr(piece[:_SHOWN]) for piece in pieces[: EOS + 1])
            raise DataError(
                f"The file begins with {first}; {self.what} begins with '<pad>' and '<EOS>'. Its files are named "
                "vocab.PROBLEM.SIZE[.subwords] and lie in the folder given to t2t-datagen --data_dir."
            )
        self.ids = {piece: i for i, piece in enumerate(pieces) if piece}  # of equal pieces the last one counts

    def pad(self, size: int) -> Self:
        lines = b"".join(self._line_of(i) + b"\n" for i in range(self.size, size))
        return type(self)(self.data.removesuffix(b"\n") + b"\n" + lines) if lines else self

    @staticmethod
    @abc.abstractmethod
    def _read_line(line: str) -> str:
        """Piece of a line."""

    @staticmethod
    @abc.abstractmethod
    def _line_of(i: int) -> bytes:
        """Line of an id without a piece."""


@VOCABULARIES.register(".subwords")
class SubwordVocabulary(_T2TFile):
    r"""A subword vocabulary, equal to tensor2tensor's SubwordTextEncoder(FILE).

    trax and the official models of TensorFlow's model garden have files of the same form. A text is cut into tokens:
    runs of letters and digits, and runs of all other characters. A token is escaped ("_" as \u, "\" as \\, a
    character without a piece as \CODE;), gets a "_" at its end, and is cut into the longest pieces from the left. So
    every text can be encoded without an unknown piece, and decoding the ids gives the text back.

    Args:
        data: the file's bytes: a piece on each line, in quotes or not; its id is the line's number, from 0.

    Raises:
        DataError: the file is not such a vocabulary, or holds characters that are not pieces themselves, so that not
            every text could be encoded.
    """

    suffix = ".subwords"
    what = "a subword vocabulary of tensor2tensor"

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.alphabet = ESCAPES.union(*self._pieces)
        if lacking := sorted(char for char in self.alphabet if char not in self.ids):
            some = ", ".join(map(repr, lacking[:8])) + (", ..." if len(lacking) > 8 else "")
            raise DataError(
                f"This subword vocabulary has no pieces for {len(lacking)} single characters ({some}), with which it "
                "cannot encode every text: it is cut off or damaged. Copy the file again."
            )
        self.longest = max(map(len, self._pieces))
        self._cache: dict[str, list[int]] = {}

    @staticmethod
    def _read_line(line: str) -> str:
        piece = line.rstrip()
        return piece[1:-1] if piece[:1] in ("'", '"') and piece.endswith(piece[:1]) else piece

    @staticmethod
    def _line_of(i: int) -> bytes:
        return b"''"

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
        words = [word for word in (_ESCAPED.sub(_unescape, token) for token in escaped if token) if word]
        spaced = [words[0]] if words else []
        for before, word in itertools.pairwise(words):
            spaced.append(f" {word}" if before[0].isalnum() and word[0].isalnum() else word)
        return "".join(spaced)

    def shown_name(self, piece: str) -> tuple[str, bool]:
        """A token counts as a word; "_" alone, its end, keeps its name."""
        name = piece.removesuffix("_").replace(" ", WORD_START)
        return name.rstrip(WORD_START) or name[:1] or piece, piece.endswith("_")


def tokens(text: str) -> list[str]:
    """Runs of letters and digits, and runs of all other characters; a single space between two runs is left out."""
    found = _RUNS.findall(text)
    return found[:1] + [token for token in found[1:-1] if token != " "] + found[1:][-1:]


def escape(token: str, alphabet: frozenset[str]) -> str:
    r"""The escaped token: "_" as \u, "\" as \\, characters not in `alphabet` as \CODE;, and "_" at its end."""
    token = token.replace("\\", "\\\\").replace("_", "\\u")
    return "".join(char if char in alphabet and char != "\n" else f"\\{ord(char)};" for char in token) + "_"


def _unescape(match: re.Match[str]) -> str:
    if match[1] is None:
        return "_" if match[0] == "\\u" else "\\"
    digits = match[1].lstrip("0") or "0"
    code = int(digits) if len(digits) < 8 else -1
    return chr(code) if 0 <= code < 0xD800 or 0xE000 <= code < 0x110000 else IMPOSSIBLE


@VOCABULARIES.register(".tokens")
class TokenVocabulary(_T2TFile):
    """A vocabulary of words or other tokens separated by white space: TokenTextEncoder(FILE, replace_oov=...).

    Args:
        data: the file's bytes: a token on each line; its id is the line's number, from 0. The first of UNKNOWN_TOKENS
            that is in the file stands for all tokens that are not.

    Raises:
        DataError: the file is not such a vocabulary.
    """

    suffix = ".tokens"
    what = "a token vocabulary of tensor2tensor"
    missing = "ID_{}"

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        unknown = [token for token in UNKNOWN_TOKENS if token in self.ids]
        if not unknown:
            raise DataError(
                f"This token vocabulary has no line {' or '.join(map(repr, UNKNOWN_TOKENS))}, the token for words that "
                "it does not hold. If its problem in tensor2tensor names another one (replace_oov, oov_token), rename "
                "that line to '<UNK>' in a copy of the file. If it names none, tensor2tensor ends at such a word, and "
                "the model cannot be imported."
            )
        self.unknown: int = self.ids[unknown[0]]

    @staticmethod
    def _read_line(line: str) -> str:
        return line.strip()

    @staticmethod
    def _line_of(i: int) -> bytes:
        return b"ID_%d" % i

    def encode(self, text: str) -> list[int]:
        """Returns the ids of the tokens separated by white space, without EOS."""
        return [self.ids.get(token, self.unknown) for token in text.split()]

    def text_of(self, ids: Iterable[int]) -> str:
        """Returns the tokens of all `ids`, spaces between, as tensor2tensor's decode; "ID_7" if there is no id 7."""
        return " ".join(self.pieces(ids))

    def shown_name(self, piece: str) -> tuple[str, bool]:
        return _shown_token(piece)


def _shown_token(token: str) -> tuple[str, bool]:
    return token.removesuffix(_CONTINUED) or token, not token.endswith(_CONTINUED)


@VOCABULARIES.register(".bytes")
class ByteVocabulary(ImportedVocabulary):
    """The bytes of UTF-8; after PAD and EOS, the id of each byte is its value plus two: ByteTextEncoder().

    tensor2tensor has no file for it; the one here only says which vocabulary it is.

    Raises:
        DataError: `data` says something else.
    """

    suffix = ".bytes"

    def __init__(self, data: bytes = _BYTES_FILE) -> None:
        self.bytes = [*_RESERVED, *(bytes([byte]) for byte in range(256))]
        super().__init__(data, [piece.decode("ascii", "backslashreplace") for piece in self.bytes])
        if data != _BYTES_FILE:
            raise DataError(
                f"This is no file of a byte vocabulary, which holds the line {_BYTES_FILE.decode()[:-1]!r}."
            )

    def encode(self, text: str) -> list[int]:
        """Returns an id for each byte; half of a surrogate pair, which has no UTF-8, becomes U+FFFD."""
        try:
            data = text.encode()
        except UnicodeEncodeError:
            data = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
        return [byte + len(_RESERVED) for byte in data]

    def text_of(self, ids: Iterable[int]) -> str:
        """Returns the text of all `ids`, as tensor2tensor's decode; bytes that are not UTF-8 become U+FFFD.

        An id that does not exist gives no text; tensor2tensor ends with an error there.
        """
        return b"".join(self.bytes[i] for i in map(int, ids) if 0 <= i < self.size).decode("utf-8", "replace")

    def shown_name(self, piece: str) -> tuple[str, bool]:
        """A space is WORD_START alone."""
        return piece.replace(" ", WORD_START), piece.isspace()


@VOCABULARIES.register(".opennmt")
class OpenNmtVocabulary(ImportedVocabulary):
    """A vocabulary of OpenNMT-tf: tokens separated by white space, made by an external tokenizer.

    The end symbol has the id 1 here and 2 there, the start symbol 2 here and 1 there. Only ASCII white space counts
    (tokenizers/tokenizer.py of 2.32.0: SpaceTokenizer, tf.strings.split): a token may hold a no-break space or another
    Unicode space.

    The names of special tokens are unknown words in a text.

    Args:
        data: the file's bytes: a token on each line, the first three those of SPECIAL.

    Raises:
        DataError: the file is not such a vocabulary, or holds a token twice.
    """

    suffix = ".opennmt"
    missing = "ID_{}"

    def __init__(self, data: bytes) -> None:
        self.tokens = [line.removesuffix("\r") for line in split_lines(data, _OPENNMT)]
        if tuple(self.tokens[: len(SPECIAL)]) != SPECIAL:
            raise DataError(
                f"The file begins with {', '.join(map(repr, self.tokens[:3]))}; {_OPENNMT} begins with "
                f"{', '.join(map(repr, SPECIAL))}."
            )
        padding, start, end, *words = self.tokens
        super().__init__(data, [padding, end, start, *words, UNKNOWN_TOKEN])
        self.unknown: int = len(self.tokens)
        self._marked = any(word.startswith(WORD_START) for word in words)  # by SentencePiece, which made the tokens
        self.ids = {word: i for i, word in enumerate(words, len(SPECIAL))}
        if len(self.ids) < len(words):
            twice = Counter(words).most_common(1)[0][0]
            raise DataError(f"The token {twice!r} stands in two lines of the vocabulary; each has one.")

    def line(self, text: str) -> str:
        """Returns a line of text as it is."""
        return text

    def encode(self, text: str) -> list[int]:
        """Returns the ids of the tokens separated by ASCII white space, without EOS."""
        return [self.ids.get(token, self.unknown) for token in _TOKEN.findall(text)]

    def text_of(self, ids: Iterable[int]) -> str:
        """Returns the tokens of all `ids`, separated by spaces."""
        return " ".join(self.pieces(ids))

    def shown_name(self, piece: str) -> tuple[str, bool]:
        """Pieces of SentencePiece have its mark already."""
        return (piece, False) if self._marked else _shown_token(piece)
