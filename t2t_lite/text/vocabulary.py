"""Vocabulary: text to piece ids and back (SentencePiece), and how one is trained."""

from __future__ import annotations

import functools
import hashlib
import io
import logging
import os
import random
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import sentencepiece

from t2t_lite.errors import DataError, UsageError
from t2t_lite.files import replace_file
from t2t_lite.ids import EOS, PAD, UNK

# Longer lines are cut for training only: SentencePiece would silently leave them out.
_MAX_TRAINING_LINE = 4096  # characters

# SentencePiece's trainer silently skips the names of special pieces, and lines with U+2585, its mark for an unknown
# character.
_NAMES = re.compile("<pad>|</s>|<unk>")
_UNKNOWN_MARK = "\u2585"

WORD_START = "\u2581"  # SentencePiece's mark for a space, with which pieces begin that begin a word

_log = logging.getLogger("t2t_lite")


class SpecialIdsError(DataError):
    """A SentencePiece model whose `ids` of PAD, EOS and UNK are not those of t2t-lite."""

    def __init__(self, ids: tuple[int, int, int]) -> None:
        super().__init__(
            f"This SentencePiece model has pad, eos, unk = {ids}; t2t-lite needs ({PAD}, {EOS}, {UNK}). "
            f"Train it with --pad_id={PAD} --eos_id={EOS} --unk_id={UNK} --bos_id=-1."
        )
        self.ids = ids


class Vocabulary:
    """A trained SentencePiece model whose first ids are PAD, EOS and UNK.

    Args:
        data: the serialised SentencePiece model, as TensorFlow Text takes it too; the bytes of the vocabulary's file.

    Raises:
        DataError: the data are not a SentencePiece model, or one with other special ids.
    """

    suffix: ClassVar[str] = ".model"  # of the name of its file in a run's folder
    unknown = UNK  # id of the piece for characters without a piece

    def __init__(self, data: bytes) -> None:
        try:
            if not data:
                raise ValueError("no bytes")  # SentencePiece would wait for a later load
            self._processor: Any = sentencepiece.SentencePieceProcessor(model_proto=data)
            self.pieces(range(self.size))  # fails if the text of a piece cannot be decoded; a model may write any
        except (RuntimeError, OSError, ValueError) as error:
            raise DataError("This is not a SentencePiece model, or it is damaged.") from error
        special = (self._processor.pad_id(), self._processor.eos_id(), self._processor.unk_id())
        if special != (PAD, EOS, UNK):
            raise SpecialIdsError(special)
        self.data = data

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Vocabulary:
        """Reads a vocabulary file; DataError, with the path, if it is missing or damaged."""
        try:
            return cls(Path(path).read_bytes())
        except FileNotFoundError:
            raise DataError(f"{path}: there is no such vocabulary file.") from None
        except DataError as error:
            raise DataError(f"{path}: {error}") from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the SentencePiece model; the file is there whole or not at all."""
        replace_file(Path(path), self.data)

    @property
    def size(self) -> int:
        """Number of pieces, PAD, EOS and UNK included."""
        return int(self._processor.get_piece_size())

    @functools.cached_property
    def checksum(self) -> str:
        """SHA-256 of the model, in hexadecimal."""
        return hashlib.sha256(self.data).hexdigest()

    def line(self, text: str) -> str:
        """Returns a line of text as training and decoding encode it: as it is."""
        return text

    def encode(self, text: str) -> list[int]:
        """Returns the ids of one line, without EOS. Runs of spaces count as one; unknown characters become UNK."""
        return list(self._processor.encode(text, out_type=int))

    def encode_many(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns the ids of each line, without EOS; uses the calling thread only."""
        ids: list[list[int]] = self._processor.encode(list(lines), out_type=int, num_threads=1)
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """Returns the text of `ids` up to the first EOS, PAD left out; UNK is written as ' ⁇ '."""
        return str(self._processor.decode(before_end(ids)))

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Returns the piece of each id, special ones included."""
        return [str(self._processor.id_to_piece(int(i))) for i in ids]

    def shown(self, ids: Iterable[int]) -> list[str]:
        """Returns the pieces as pages and pictures of the attention take them: here those of `pieces`."""
        return self.pieces(ids)

    def words(self) -> list[str]:
        """Returns what each piece stands for in a vocabulary of the kind "word", by id, special ones included."""
        return [piece.removeprefix(WORD_START) for piece in self.pieces(range(self.size))]


def before_end(ids: Iterable[int]) -> list[int]:
    """Returns `ids` up to the first EOS, PAD left out."""
    kept = []
    for i in ids:
        if i == EOS:
            break
        if i != PAD:
            kept.append(int(i))
    return kept


def train_vocabulary(
    lines: Iterable[str],
    *,
    size: int,
    kind: str = "bpe",
    character_coverage: float = 1.0,
    seed: int = 1,
    max_lines: int = 1_000_000,
    max_chars: int = 200_000_000,
) -> Vocabulary:
    """Trains a vocabulary on an evenly drawn sample of `lines`; memory is bounded by the sample.

    The text is taken as it is: no Unicode normalisation, no lowercasing. If the corpus yields fewer pieces than `size`,
    the vocabulary has as many as there are, and a warning says so.

    Args:
        size: pieces wanted, PAD, EOS and UNK included.
        kind: "bpe", "unigram"; "char" or "word" for a vocabulary of single characters or of whole words. There are
            usually fewer than `size`. Words have a piece each, however many there are.
        character_coverage: share of the characters that get pieces; 1.0 means all of them.
        max_lines, max_chars: bounds of the sample.

    Raises:
        DataError: no text at all.
        UsageError: `size` is below the number of different characters; `kind` unknown.
    """
    if kind not in ("bpe", "unigram", "char", "word"):
        raise UsageError(f"vocab_type={kind!r} is not one of: bpe, unigram, char.")
    sample = draw_lines(lines, max_lines=max_lines, max_chars=max_chars, seed=seed)
    if not sample:
        raise DataError("There is no text to train a vocabulary on: every line is empty, or left out with its pair.")
    sample, settings = _nothing_passed_over(sample, kind, size)
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sample),
            model_writer=model,
            vocab_size=size,
            hard_vocab_limit=False,  # fewer pieces where the corpus has no more
            model_type=kind,
            character_coverage=character_coverage,
            normalization_rule_name="identity",
            pad_id=PAD,
            eos_id=EOS,
            unk_id=UNK,
            bos_id=-1,
            max_sentence_length=4 * _MAX_TRAINING_LINE,  # bytes
            minloglevel=2,
            **settings,
        )
    except RuntimeError as error:
        raise _training_error(error, size) from error
    vocabulary = Vocabulary(model.getvalue())
    _check_size(vocabulary, size, kind)
    return vocabulary


def _check_size(vocabulary: Vocabulary, size: int, kind: str) -> None:
    if kind == "char" and vocabulary.size > size:
        raise _too_small(size, vocabulary.size)
    if kind in ("bpe", "unigram") and vocabulary.size < size:
        _log.warning(
            "The corpus is too small for a vocabulary of %d pieces; the largest it gives has %d, which is used.",
            size,
            vocabulary.size,
        )


def _nothing_passed_over(sample: list[str], kind: str, size: int) -> tuple[list[str], dict[str, Any]]:
    """Returns the text without U+2585, and settings that give pieces to it and to all characters of special names.

    Text that holds neither is trained on unchanged, so that it gives the same vocabulary as before.
    """
    # All characters, or all words, get a piece, and not only `size` of them. Fewer words need no setting, and so the
    # same words give the same file as before.
    many_words = kind == "word" and len({word for line in sample for word in line.split()}) > size - (UNK + 1)
    settings: dict[str, Any] = {"use_all_vocab": True} if kind == "char" or many_words else {}
    if any(_UNKNOWN_MARK in line for line in sample):
        cut = re.compile(rf"\S*{_UNKNOWN_MARK}\S*" if kind == "word" else _UNKNOWN_MARK)  # words are taken whole
        sample = [cut.sub(" ", line) for line in sample]
        settings |= {} if kind == "word" else {"user_defined_symbols": [_UNKNOWN_MARK]}
    lacking = {char for line in sample if "<" in line for name in _NAMES.findall(line) for char in name}
    for line in sample if lacking else ():
        lacking.difference_update(_NAMES.sub("", line))
        if not lacking:
            break
    if lacking and kind != "word":
        settings["required_chars"] = "".join(sorted(lacking))
    return sample, settings


def _training_error(error: RuntimeError, size: int) -> Exception:
    too_small = re.search(r"smaller than required_chars\D+\d+ vs (\d+)", str(error))
    if too_small:
        return _too_small(size, int(too_small[1]))
    return DataError(f"SentencePiece could not train a vocabulary: {error}")


def _too_small(size: int, needed: int) -> UsageError:
    return UsageError(
        f"vocab_size={size} is too small: the text's characters alone need {needed} pieces. Give a larger vocab_size; "
        "a problem of your own may have a character_coverage below 1 instead."
    )


def draw_lines(lines: Iterable[str], *, max_lines: int, max_chars: int, seed: int) -> list[str]:
    """Returns at most `max_lines` lines and about `max_chars` characters, each line being as likely as any other."""
    generator = random.Random(seed)
    sample: list[str] = []
    seen = chars = 0
    for line in lines:
        if len(line) > _MAX_TRAINING_LINE:
            line = line[:_MAX_TRAINING_LINE].rpartition(" ")[0] or line[:_MAX_TRAINING_LINE]  # no half words
        line = line.replace("\0", " ")
        if not line.strip():
            continue
        seen += 1
        if len(sample) < max_lines:
            sample.append(line)
            chars += len(line)
        elif (place := generator.randrange(seen)) < max_lines:
            chars += len(line) - len(sample[place])
            sample[place] = line
        # A random half of an even sample is an even sample.
        if chars > max_chars and len(sample) > 1:
            generator.shuffle(sample)
            del sample[len(sample) // 2 :]
            max_lines = len(sample)
            chars = sum(map(len, sample))
    return sample


def in_graph_tokenizer(vocabulary: Vocabulary) -> Any:
    """Returns the TensorFlow Text tokenizer of `vocabulary`: string tensors to int32 ids, equal to `encode`."""
    import tensorflow_text

    # TensorFlow finds a loaded model's vocabulary by this name. The default name is the same for all models, so a
    # process would use the first vocabulary in place of every other. (The ids' type is int32 by default.)
    name = f"vocabulary_{vocabulary.checksum[:32]}"
    return tensorflow_text.SentencepieceTokenizer(model=vocabulary.data, name=name)
