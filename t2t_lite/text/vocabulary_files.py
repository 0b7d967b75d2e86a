"""The files of a model's vocabularies, of any kind: the ending of a file's name says which kind."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from t2t_lite.errors import DataError
from t2t_lite.text.any_vocabulary import AnyVocabulary
from t2t_lite.text.opennmt_vocabulary import OpenNmtVocabulary
from t2t_lite.text.subwords import SubwordVocabulary
from t2t_lite.text.token_vocabulary import ByteVocabulary, TokenVocabulary
from t2t_lite.text.vocabulary import Vocabulary

# SentencePiece's kind, which this package trains, and those of tensor2tensor and OpenNMT-tf.
KINDS: Mapping[str, type[AnyVocabulary]] = {
    kind.suffix: kind for kind in (Vocabulary, SubwordVocabulary, TokenVocabulary, ByteVocabulary, OpenNmtVocabulary)
}

# How a folder names a model's vocabularies: one for both sides, or one for each.
_SHARED, _SIDES = "vocabulary", ("vocabulary.source", "vocabulary.target")
FILES = tuple(
    f"{name}{suffix}" for suffix in KINDS for name in (_SHARED, *_SIDES)
)  # all possible names, SentencePiece's first


def load(path: str | os.PathLike[str]) -> AnyVocabulary:
    """Reads a vocabulary file of the kind that the ending of its name says; any other ending: a SentencePiece model.

    Raises:
        DataError: there is no such file, or it is damaged.
    """
    return KINDS.get(Path(path).suffix, Vocabulary).load(path)


def by_file(
    source: AnyVocabulary, target: AnyVocabulary, names: tuple[str, ...] = (_SHARED, *_SIDES)
) -> dict[str, AnyVocabulary]:
    """The files that hold a model's vocabularies: one file if both sides share an object.

    Args:
        names: file names without endings: of the shared vocabulary, of the source's and of the target's.
    """
    shared, *sides = names
    if source is target:
        return {f"{shared}{source.suffix}": source}
    return {f"{name}{side.suffix}": side for name, side in zip(sides, (source, target), strict=True)}


def is_there(folder: str | os.PathLike[str]) -> bool:
    """Whether a folder holds a file that `by_file` names."""
    return any(Path(folder, name).is_file() for name in FILES)


def load_pair(folder: str | os.PathLike[str]) -> tuple[AnyVocabulary, AnyVocabulary]:
    """Reads the files that `by_file` names; returns (source, target), one object if they are shared.

    Raises:
        DataError: as `load`; or there are several for one side.
    """
    shared = _only(folder, _SHARED)
    if shared is not None:
        vocabulary = load(shared)
        return vocabulary, vocabulary
    source, target = (load(_only(folder, side) or Path(folder, f"{side}{Vocabulary.suffix}")) for side in _SIDES)
    return source, target


def _only(folder: str | os.PathLike[str], name: str) -> Path | None:
    """The file of that name with any ending, None if there is none; DataError if there are several."""
    there = [path for suffix in KINDS if (path := Path(folder, f"{name}{suffix}")).exists()]
    if len(there) > 1:
        raise DataError(
            f"{folder} holds {' and '.join(path.name for path in there)}; a model has one of them. Remove the other."
        )
    return there[0] if there else None
