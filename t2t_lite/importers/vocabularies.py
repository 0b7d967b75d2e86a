"""Vocabularies of tensor2tensor and OpenNMT-tf: `encode` and `text_of` do the same as those toolkits' own."""

from __future__ import annotations

import abc
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Self

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

_T2T_TOKENS = "a token vocabulary of tensor2tensor"
_RESERVED = (b"<pad>", b"<EOS>")
_BYTES_FILE = b"tensor2tensor ByteTextEncoder\n"

SPECIAL = ("<blank>", "<s>", "</s>")  # OpenNMT-tf's first ids: constants.py of 2.32.0
UNKNOWN_TOKEN = "<unk>"  # has the id after the last one in the file; it has no line of its own

_TOKEN = re.compile(r"[^\t-\r ]+")
_OPENNMT = "a vocabulary of OpenNMT-tf"

ESCAPES = frozenset("\\_u;0123456789")  # the characters that escapes are written in
IMPOSSIBLE = "\u3013"  # what an escaped code point that belongs to no character is decoded as

_T2T_SUBWORDS = "a subword vocabulary of tensor2tensor"
# \w is "_" and the categories L* and N*, which tensor2tensor uses: tests/importers/test_subwords.py compares them all.
_RUNS = re.compile(r"[^\W_]+|[\W_]+")
_ESCAPED = re.compile(r"\\u|\\\\|\\([0-9]+);")
_CACHED_TOKENS = 1 << 18


class ImportedVocabulary(AnyVocabulary):
    """A vocabulary of another toolkit: `encode` and `text_of` do the same as that toolkit's own encode and decode.

    So `text_of` may write PAD and EOS as their names.
    """

    def pad(self, size: int) -> ImportedVocabulary:
        """Returns the vocabulary with ids added at its end, so that it has `size` ids.

        A model made with vocab_divisor has more ids than pieces; the added ids are decoded as in tensor2tensor.

        Raises:
            DataError: this kind of vocabulary has a fixed size.
        """
        if size > self.size:
            raise DataError(f"This vocabulary has {self.size:,} ids always, and the model {size:,}.")
        return self

    def _append(self, lines: bytes) -> Self:
        """Returns the vocabulary with lines added to its file; itself if there are none."""
        return type(self)(self.data.removesuffix(b"\n") + b"\n" + lines) if lines else self

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


def check_first(pieces: Sequence[str], what: str) -> None:
    """Raises DataError unless the first two pieces are PAD and EOS, by the names that tensor2tensor gives them."""
    found = [piece.removesuffix("_") for piece in pieces[: EOS + 1]]
    if found != ["<pad>", "<EOS>"]:
        shown = " and ".join(repr(piece[:_SHOWN]) for piece in pieces[: EOS + 1])
        raise DataError(
            f"The file begins with {shown}; {what} begins with '<pad>' and '<EOS>'. "
            "Its files are named vocab.PROBLEM.SIZE[.subwords] and lie in the folder given to t2t-datagen --data_dir."
        )


@VOCABULARIES.register(".subwords")
class SubwordVocabulary(ImportedVocabulary):
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

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._pieces = [_unquote(line) for line in split_lines(data, _T2T_SUBWORDS)]
        check_first(self._pieces, _T2T_SUBWORDS)
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

    def pad(self, size: int) -> SubwordVocabulary:
        """As `ImportedVocabulary.pad`, with empty pieces."""
        return self._append(b"''\n" * (size - self.size))

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

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Returns the piece of each id, as it stands in the file; "" for an id that does not exist."""
        return [self._pieces[i] if 0 <= i < self.size else "" for i in map(int, ids)]

    def shown_name(self, piece: str) -> tuple[str, bool]:
        """As `ImportedVocabulary.shown_name`; a token counts as a word, and "_" alone, its end, keeps its name."""
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


def _unquote(line: str) -> str:
    piece = line.rstrip()
    return piece[1:-1] if piece[:1] in ("'", '"') and piece.endswith(piece[:1]) else piece


@VOCABULARIES.register(".tokens")
class TokenVocabulary(ImportedVocabulary):
    """A vocabulary of words or other tokens separated by white space: TokenTextEncoder(FILE, replace_oov=...).

    Args:
        data: the file's bytes: a token on each line; its id is the line's number, from 0. The first of UNKNOWN_TOKENS
            that is in the file stands for all tokens that are not.

    Raises:
        DataError: the file is not such a vocabulary.
    """

    suffix = ".tokens"

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._tokens = [line.strip() for line in split_lines(data, _T2T_TOKENS)]
        check_first(self._tokens, _T2T_TOKENS)
        self.ids = {token: i for i, token in enumerate(self._tokens)}  # of equal tokens the last one counts
        there = [token for token in UNKNOWN_TOKENS if token in self.ids]
        if not there:
            raise DataError(
                f"This token vocabulary has no line {' or '.join(map(repr, UNKNOWN_TOKENS))}, the token for words that "
                "it does not hold. If its problem in tensor2tensor names another one (replace_oov, oov_token), rename "
                "that line to '<UNK>' in a copy of the file. If it names none, tensor2tensor ends at such a word, and "
                "the model cannot be imported."
            )
        self.unknown: int = self.ids[there[0]]

    def check_unknown(self) -> None:
        """Raises DataError if several tokens may stand for unknown words: an import cannot know which one does."""
        there = [token for token in UNKNOWN_TOKENS if token in self.ids]
        if len(there) > 1:
            raise DataError(
                f"This token vocabulary holds {' and '.join(map(repr, there))}, and which of them stands for words "
                "that it does not hold is not known. Rename the lines of the others, such as 'UNK' to 'UNK_'."
            )

    @property
    def size(self) -> int:
        return len(self._tokens)

    def pad(self, size: int) -> TokenVocabulary:
        """As `ImportedVocabulary.pad`; the added tokens are "ID_7" and so on."""
        return self._append(b"".join(b"ID_%d\n" % i for i in range(self.size, size)))

    def encode(self, text: str) -> list[int]:
        """Returns the ids of the tokens separated by white space, without EOS."""
        return [self.ids.get(token, self.unknown) for token in text.split()]

    def text_of(self, ids: Iterable[int]) -> str:
        """Returns the tokens of all `ids`, spaces between, as tensor2tensor's decode; "ID_7" if there is no id 7."""
        return " ".join(self.pieces(ids))

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Returns the token of each id; "ID_7" if there is no id 7."""
        return [self._tokens[i] if 0 <= i < self.size else f"ID_{i}" for i in map(int, ids)]

    def shown_name(self, piece: str) -> tuple[str, bool]:
        """As `ImportedVocabulary.shown_name`."""
        return shown_token(piece)


@VOCABULARIES.register(".bytes")
class ByteVocabulary(ImportedVocabulary):
    """The bytes of UTF-8; after PAD and EOS, the id of each byte is its value plus two: ByteTextEncoder().

    tensor2tensor has no file for it; the one here only says which vocabulary it is.

    Raises:
        DataError: `data` says something else.
    """

    suffix = ".bytes"

    def __init__(self, data: bytes = _BYTES_FILE) -> None:
        super().__init__(data)
        if data != _BYTES_FILE:
            raise DataError(
                f"This is no file of a byte vocabulary, which holds the line {_BYTES_FILE.decode()[:-1]!r}."
            )

    @property
    def size(self) -> int:
        return len(_RESERVED) + 256

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
        return b"".join(self.bytes_of(i) for i in map(int, ids)).decode("utf-8", "replace")

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Returns the character of each ASCII byte, "\\xe4" for other bytes, "" for an id that does not exist."""
        return [self.bytes_of(i).decode("ascii", "backslashreplace") for i in map(int, ids)]

    def shown_name(self, piece: str) -> tuple[str, bool]:
        """As `ImportedVocabulary.shown_name`; a space is WORD_START alone."""
        return piece.replace(" ", WORD_START), piece.isspace()

    def bytes_of(self, i: int) -> bytes:
        """The byte, or the name, that an id stands for; b"" for an id that does not exist."""
        if not 0 <= i < self.size:
            return b""
        return _RESERVED[i] if i < len(_RESERVED) else bytes([i - len(_RESERVED)])


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

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.tokens = [line.removesuffix("\r") for line in split_lines(data, _OPENNMT)]
        if tuple(self.tokens[: len(SPECIAL)]) != SPECIAL:
            raise DataError(
                f"The file begins with {', '.join(map(repr, self.tokens[:3]))}; {_OPENNMT} begins with "
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
