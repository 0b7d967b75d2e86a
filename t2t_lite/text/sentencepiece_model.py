"""A user's own SentencePiece models, read as vocabularies, whatever ids their special pieces have."""

import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from t2t_lite.errors import DataError
from t2t_lite.files import StrPath
from t2t_lite.ids import EOS, PAD, UNK
from t2t_lite.text.vocabulary import SpecialIdsError, Vocabulary

_KINDS = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}  # sentencepiece_model.proto: TrainerSpec.ModelType

_FILLER = re.compile(r"averyunlikelytoken\d+")  # onmt-build-vocab --size_multiple adds such tokens

_log = logging.getLogger("t2t_lite")


def load(path: StrPath, *, say: bool = True) -> Vocabulary:
    """Reads a SentencePiece model.

    If PAD, EOS and UNK have other ids than here, as with SentencePiece's defaults, these three pieces are moved to the
    front. Text is cut into the same pieces as before.

    Args:
        say: whether to log this at the level INFO; otherwise it is logged at DEBUG.

    Raises:
        DataError: the file is not a SentencePiece model, or has no unknown piece.
    """
    try:
        data = Path(path).read_bytes()
        return Vocabulary(data)
    except SpecialIdsError as error:
        _log.log(
            logging.INFO if say else logging.DEBUG,
            "%s has pad, eos, unk = %s; its pieces get other ids, so that these are (%d, %d, %d), as t2t-lite needs. "
            "Text is cut as before.",
            path,
            error.ids,
            PAD,
            EOS,
            UNK,
        )
        return Vocabulary(_reorder(data))
    except DataError as error:
        raise DataError(f"{path}: {error}") from error


def with_order(path: StrPath, tokens: Sequence[str], last: str) -> Vocabulary:
    """Reads a SentencePiece model and gives its pieces the order of `tokens`, after PAD, EOS and UNK.

    Args:
        tokens: all pieces of the model except special ones; and tokens that fill up a vocabulary of OpenNMT-tf, which
            become pieces that no text is cut into.
        last: the name of one more piece, which occurs in no text.

    Raises:
        DataError: the file is not a SentencePiece model, or has other pieces.
    """
    data = load(path, say=False).data
    model = _parse(data)
    piece_type = type(model.pieces[0])
    special = (piece_type.CONTROL, piece_type.UNKNOWN)
    there = {piece.piece: piece for piece in model.pieces if piece.type not in special}
    for token in tokens:
        if _FILLER.fullmatch(token):
            there.setdefault(token, piece_type(piece=token, type=special[0]))
    if other := sorted(there.keys() ^ set(tokens)):
        raise DataError(
            f"{path} and the vocabulary do not have the same pieces: {', '.join(map(repr, other[:4]))} "
            f"{'is' if len(other) == 1 else 'are'} in one of them only. Text would be cut as in no training."
        )
    pieces = [*model.pieces[: UNK + 1], *(there[token] for token in tokens), piece_type(piece=last, type=special[0])]
    del model.pieces[:]
    model.pieces.extend(pieces)
    model.trainer_spec.bos_id = -1
    model.trainer_spec.vocab_size = len(pieces)
    return Vocabulary(bytes(model.SerializeToString(deterministic=True)))


def kind(vocabulary: Vocabulary) -> str:
    """How a vocabulary cuts text: "unigram", "bpe", "word" or "char"."""
    return _KINDS[_parse(vocabulary.data).trainer_spec.model_type]


def ordinary_pieces(vocabulary: Vocabulary) -> dict[int, tuple[str, float]]:
    """Text and score by id of the pieces that text is cut into; special, user-defined and byte pieces are left out."""
    model = _parse(vocabulary.data)
    return {i: (p.piece, p.score) for i, p in enumerate(model.pieces) if p.type == type(p).NORMAL}


def normalisation(vocabulary: Vocabulary) -> str:
    """The rule by which a vocabulary changes characters before it cuts text, such as "nmt_nfkc"; "" if it has none."""
    spec = _parse(vocabulary.data).normalizer_spec
    return (spec.name or "user_defined") if spec.precompiled_charsmap else ""


def _reorder(data: bytes) -> bytes:
    """Returns the model with PAD, EOS and UNK first; PAD or EOS is added if it is missing."""
    model = _parse(data)
    spec, piece_type = model.trainer_spec, type(model.pieces[0])
    unknown = next(piece for piece in model.pieces if piece.type == piece_type.UNKNOWN)  # each model has one
    first = [piece_type(piece=name, type=piece_type.CONTROL) for name in (spec.pad_piece, spec.eos_piece)]
    names = {piece.piece for piece in (*first, unknown)}
    pieces = [*first, unknown, *(piece for piece in model.pieces if piece.piece not in names)]
    del model.pieces[:]
    model.pieces.extend(pieces)
    spec.pad_id, spec.eos_id, spec.unk_id = PAD, EOS, UNK
    spec.bos_id = next((i for i, piece in enumerate(pieces) if piece.piece == spec.bos_piece), -1)
    spec.vocab_size = len(pieces)
    return bytes(model.SerializeToString(deterministic=True))


def _parse(data: bytes) -> Any:
    from sentencepiece import sentencepiece_model_pb2

    return sentencepiece_model_pb2.ModelProto.FromString(data)
