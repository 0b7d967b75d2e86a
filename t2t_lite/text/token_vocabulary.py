"""Token and byte vocabularies of tensor2tensor: its TokenTextEncoder and ByteTextEncoder."""

from __future__ import annotations

from collections.abc import Iterable

from t2t_lite.errors import DataError
from t2t_lite.text.any_vocabulary import WORD_START
from t2t_lite.text.imported_vocabulary import ImportedVocabulary, check_first, lines_of, shown_token

# replace_oov of tensor2tensor's problems: of translate_ende_wmt_bpe32k, of text2text_tmpdir_tokens, of dialogues;
# oov_token of CFQ (google-research/cfq).
UNKNOWN_TOKENS = ("UNK", "<UNK>", "<unk>", "<OOV>")

_WHAT = "a token vocabulary of tensor2tensor"
_RESERVED = (b"<pad>", b"<EOS>")
_BYTES_FILE = b"tensor2tensor ByteTextEncoder\n"


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
        self._tokens = [line.strip() for line in lines_of(data, _WHAT)]
        check_first(self._tokens, _WHAT)
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

    def padded(self, size: int) -> TokenVocabulary:
        """As `ImportedVocabulary.padded`; the added tokens are "ID_7" and so on."""
        data = self.data if self.data.endswith(b"\n") else self.data + b"\n"
        return TokenVocabulary(data + b"".join(b"ID_%d\n" % i for i in range(self.size, size)))

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
