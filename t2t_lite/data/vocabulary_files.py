"""The files of a model's vocabularies, of any kind: the ending of a file's name says which kind."""

from __future__ import annotations

import os
from pathlib import Path

from t2t_lite.errors import DataError
from t2t_lite.registry import VOCABULARIES
from t2t_lite.text.any_vocabulary import AnyVocabulary
from t2t_lite.text.vocabulary import Vocabulary

# How a folder names a model's vocabularies: one for both sides, or one for each.
_SHARED, _SIDES = "vocabulary", ("vocabulary.source", "vocabulary.target")


def suffixes() -> list[str]:
    """Returns the endings of vocabulary files: SentencePiece's, which this package trains, then the registered ones."""
    return [Vocabulary.suffix, *VOCABULARIES.names()]


def kind(suffix: str) -> type[AnyVocabulary]:
    """Returns the class for an ending; any that is not registered means a SentencePiece model."""
    return VOCABULARIES.get(suffix) if suffix in VOCABULARIES else Vocabulary


def file_names() -> list[str]:
    """Returns all names that `by_file` may give, SentencePiece's first."""
    return [f"{name}{suffix}" for suffix in suffixes() for name in (_SHARED, *_SIDES)]


def load(path: str | os.PathLike[str]) -> AnyVocabulary:
    """Reads a vocabulary file of the kind that the ending of its name says; any other ending: a SentencePiece model.

    Raises:
        DataError: there is no such file, or it is damaged.
    """
    return kind(Path(path).suffix).load(path)


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
    return any(Path(folder, name).is_file() for name in file_names())


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
    there = [path for suffix in suffixes() if (path := Path(folder, f"{name}{suffix}")).exists()]
    if len(there) > 1:
        raise DataError(
            f"{folder} holds {' and '.join(path.name for path in there)}; a model has one of them. Remove the other."
        )
    return there[0] if there else None
