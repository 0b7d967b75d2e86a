"""Vocabulary: text to piece ids and back, with SentencePiece."""

import functools
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import sentencepiece

from t2t_lite.errors import DataError
from t2t_lite.ids import EOS, PAD, UNK
from t2t_lite.text.any_vocabulary import WORD_START, AnyVocabulary
from t2t_lite.text.labels import is_label, missing_label, split_label
from t2t_lite.text.line_breaks import breaks_as_spaces, plain_breaks


class SpecialIdsError(DataError):
    """A SentencePiece model whose `ids` of PAD, EOS and UNK are not those of t2t-lite."""

    def __init__(self, ids: tuple[int, int, int]) -> None:
        super().__init__(
            f"This SentencePiece model has pad, eos, unk = {ids}; t2t-lite needs ({PAD}, {EOS}, {UNK}). "
            f"Train it with --pad_id={PAD} --eos_id={EOS} --unk_id={UNK} --bos_id=-1."
        )
        self.ids = ids


class Vocabulary(AnyVocabulary):
    """A trained SentencePiece model whose first ids are PAD, EOS and UNK.

    Its control symbols of the form of labels, such as ">>de<<", are labels; no text is cut into them.

    Args:
        data: the serialised SentencePiece model, as TensorFlow Text takes it too; the bytes of the vocabulary's file.

    Raises:
        DataError: the data are not a SentencePiece model, or one with other special ids.
    """

    suffix: ClassVar[str] = ".model"
    unknown = UNK

    def __init__(self, data: bytes) -> None:
        try:
            if not data:
                raise ValueError("no bytes")  # SentencePiece would wait for a later load
            self._processor: Any = sentencepiece.SentencePieceProcessor(model_proto=data)
            pieces = self.pieces(range(self.size))  # fails if the text of one cannot be decoded; a model may write any
        except (RuntimeError, OSError, ValueError) as error:
            raise DataError("This is not a SentencePiece model, or it is damaged.") from error
        special = (self._processor.pad_id(), self._processor.eos_id(), self._processor.unk_id())
        if special != (PAD, EOS, UNK):
            raise SpecialIdsError(special)
        super().__init__(data)
        found = {piece: i for i, piece in enumerate(pieces) if is_label(piece) and self._processor.is_control(i)}
        self.label_ids, self.labels = found, tuple(found)

    @property
    def size(self) -> int:
        return int(self._processor.get_piece_size())

    @property
    def sentencepiece(self) -> bytes:
        return self.data

    @functools.cached_property
    def keeps_line_breaks(self) -> bool:
        """Whether a line break has a piece; one that could be written in bytes is a space."""
        return "\n" in self.pieces(self.encode("\n"))

    def line(self, text: str) -> str:
        """Returns a text as training and decoding encode it: line breaks as spaces, unless they have a piece."""
        return plain_breaks(text) if self.keeps_line_breaks else breaks_as_spaces(text)

    def normalize(self, text: str) -> str:
        """Returns a line as the model's own normalisation makes it, spaces as SentencePiece's mark."""
        return str(self._processor.normalize(text))

    def encode(self, text: str) -> list[int]:
        """Returns the ids of one line. Runs of spaces count as one; unknown characters become UNK."""
        return list(self._processor.encode(text, out_type=int))

    def encode_many(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns the ids of each line, without EOS; uses the calling thread only."""
        ids: list[list[int]] = self._processor.encode(list(lines), out_type=int, num_threads=1)
        return ids

    def source_line(self, text: str) -> str:
        label, rest = split_label(text, self.labels)
        if self.labels and not label and text.strip():
            raise missing_label(text, self.labels)
        return f"{label} {self.line(rest)}" if label else self.line(rest)

    def encode_source(self, lines: Sequence[str]) -> list[list[int]]:
        split = [split_label(line, self.labels) for line in lines]
        ids = self.encode_many([rest for _, rest in split])
        return [[self.label_ids[label], *row] if label else row for (label, _), row in zip(split, ids, strict=True)]

    def unknown_symbols(self, text: str) -> list[str]:
        """Returns what the unknown pieces of a text stand for: characters; words in a vocabulary of the kind "word"."""
        _, text = split_label(text, self.labels)
        parts = zip(self.encode(text), self._processor.encode(text, out_type=str), strict=True)
        unknown = [part for i, part in parts if i == UNK]
        # Only a whole word has the mark of a space in it: the mark is a piece of all other kinds.
        words = [part.removeprefix(WORD_START) for part in unknown if part.startswith(WORD_START)]
        return words or [char for part in unknown for char in part]

    def text_of(self, ids: Iterable[int]) -> str:
        """Returns the text of all `ids`; UNK is written as ' ⁇ ', and line breaks as `line` writes them."""
        return self.line(str(self._processor.decode([int(i) for i in ids])))

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return [str(self._processor.id_to_piece(int(i))) for i in ids]

    def display_pieces(self, ids: Iterable[int]) -> list[str]:
        return self.pieces(ids)

    def words(self) -> list[str]:
        """Returns what each piece stands for in a vocabulary of the kind "word", by id, special ones included."""
        return [piece.removeprefix(WORD_START) for piece in self.pieces(range(self.size))]
