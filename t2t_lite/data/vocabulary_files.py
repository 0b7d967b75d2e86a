"""The files of a model's vocabularies, of any kind: the ending of a file's name says which kind."""

import logging
import os
from pathlib import Path

from t2t_lite.errors import DataError, UsageError
from t2t_lite.files import StrPath
from t2t_lite.registry import VOCABULARIES
from t2t_lite.remote.mirror import SMALL, fetch_url
from t2t_lite.text import sentencepiece_model
from t2t_lite.text.any_vocabulary import AnyVocabulary
from t2t_lite.text.vocabulary import Vocabulary

# How a folder names a model's vocabularies: one for both sides, or one for each.
_SHARED, _SIDES = "vocabulary", ("vocabulary.source", "vocabulary.target")

Vocabularies = tuple[AnyVocabulary, AnyVocabulary]  # source, target; one object where both sides share it

_log = logging.getLogger("t2t_lite")


def suffixes() -> list[str]:
    """Returns the endings of vocabulary files: SentencePiece's, which this package trains, then the registered ones."""
    return [Vocabulary.suffix, *VOCABULARIES.names()]


def kind(suffix: str) -> type[AnyVocabulary]:
    """Returns the class for an ending; any that is not registered means a SentencePiece model."""
    return VOCABULARIES.get(suffix) if suffix in VOCABULARIES else Vocabulary


def file_names() -> list[str]:
    """Returns all names that `by_file` may give, SentencePiece's first."""
    return [f"{name}{suffix}" for suffix in suffixes() for name in (_SHARED, *_SIDES)]


def load(path: StrPath) -> AnyVocabulary:
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


def is_there(folder: StrPath) -> bool:
    """Whether a folder holds a file that `by_file` names."""
    return any(Path(folder, name).is_file() for name in file_names())


def load_pair(folder: StrPath) -> Vocabularies:
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


def load_given(path: StrPath, *, say: bool = True) -> Vocabularies:
    """Reads what --vocabulary names: the vocabularies of a run, or a single file, which both sides then share.

    Args:
        say: whether to log what a SentencePiece model of the user's own changes: ids of pieces, and text.

    Raises:
        UsageError: there is neither a run nor a file.
        DataError: damaged files, or a URL with nothing there.
    """
    path = fetch_url(os.fspath(path), SMALL.fullmatch)
    if os.path.isfile(path):
        if kind(Path(path).suffix) is not Vocabulary:
            other = load(path)
            return other, other
        given = sentencepiece_model.load(path, say=say)
        if say and (rule := sentencepiece_model.normalisation(given)):
            _log.warning(
                "%s changes text by the rule %s before it cuts it. A model learns to write the changed text, but "
                "references stay as they are, so scores may be lower. Train it with "
                "--normalization_rule_name=identity, or normalise all text likewise.",
                path,
                rule,
            )
        return given, given
    if not os.path.isdir(path):
        raise UsageError(f"--vocabulary={path}: there is no such run and no such file.")
    if not is_there(path):
        shared, source, target, *_ = file_names()
        raise UsageError(
            f"--vocabulary={path} is a folder without {shared} or {source} and {target}. Give the folder of a "
            "run (the --output_dir of t2t-lite-trainer), a SentencePiece model, FILE.model, or a subword vocabulary of "
            "tensor2tensor, FILE.subwords."
        )
    return load_pair(path)


def _only(folder: StrPath, name: str) -> Path | None:
    """The file of that name with any ending, None if there is none; DataError if there are several."""
    there = [path for suffix in suffixes() if (path := Path(folder, f"{name}{suffix}")).exists()]
    if len(there) > 1:
        raise DataError(
            f"{folder} holds {' and '.join(path.name for path in there)}; a model has one of them. Remove the other."
        )
    return there[0] if there else None
