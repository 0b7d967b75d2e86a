"""Prepared data of a run, checked against its vocabulary and its checkpoints."""

import dataclasses
import hashlib
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from t2t_lite.data import vocabulary_files
from t2t_lite.data.prepare import prepare
from t2t_lite.data.store import Store, open_store
from t2t_lite.data.vocabulary_files import Vocabularies, by_file, file_names, load_pair
from t2t_lite.errors import DataError
from t2t_lite.files import StrPath, replace_file, sha256_of
from t2t_lite.remote.mirror import SMALL, fetch, fetch_url, push
from t2t_lite.remote.store import make_absolute
from t2t_lite.runs.resume import check_data
from t2t_lite.runs.run_dir import GivenVocabulary, RunSpec, has_weights

_log = logging.getLogger("t2t_lite")


def given_vocabulary_of(path: StrPath, trained: GivenVocabulary | None = None) -> GivenVocabulary:
    """Returns the entry of problem.json for --vocabulary=PATH, which may be gone if the run has `trained` with it."""
    if trained is not None and trained.path == os.path.abspath(path) and not os.path.lexists(path):
        _log.info("%s is gone; the run resumes with its own copy of the vocabulary.", path)
        return trained
    source, target = vocabulary_files.load_given(path)
    return GivenVocabulary(make_absolute(os.fspath(path)), source.checksum, target.checksum)


def prepare_run_data(
    spec: RunSpec, output_dir: StrPath, *, again: bool = False, **options: Any
) -> tuple[RunSpec, Store]:
    """Opens the prepared data of a run, or prepares them.

    Args:
        again: prepare them again if they have changed, and let the run resume with other data. Its vocabulary stays.
        options: num_workers and progress of `prepare`.

    Returns:
        (`spec` with the vocabulary and the checksums of the data and of the run's files, the store).

    Raises:
        DataError: the checkpoints were trained on other data, or the run's vocabulary is damaged; also as `prepare`.
    """
    trained = has_weights(output_dir)
    if trained:  # other learned files are written again
        check_files(output_dir, {name: known for name, known in spec.files.items() if name in file_names()})
    if again and trained and spec.vocabulary is None:
        spec = dataclasses.replace(spec, vocabulary=given_vocabulary_of(output_dir))
    vocabularies = None if spec.vocabulary is None else _load(spec.vocabulary, output_dir)
    known = spec.data_sha256 if trained else None
    folder = spec.data_folder(output_dir)
    fetch(folder / spec.problem)
    store = prepare(spec.make_problem(), folder, vocabularies=vocabularies, again=again, known=known, **options)
    push(folder)
    if trained:
        check_data(spec, store.checksum, store.folder, output_dir, again=again)
    return dataclasses.replace(spec, data_sha256=store.checksum, files=file_checksums(store)), store


def file_checksums(store: Store) -> dict[str, str]:
    """Returns the checksums of the files that a run takes from its data: its vocabularies and, if learned, its tags."""
    vocabularies = by_file(store.source_vocabulary, store.target_vocabulary)
    found = {name: vocabulary.checksum for name, vocabulary in vocabularies.items()}
    learned = store.outputs.files().items()
    return found | {name: hashlib.sha256(text.encode()).hexdigest() for name, text in learned}


def check_files(folder: StrPath, files: Mapping[str, str]) -> None:
    """Raises DataError, naming the file, unless the files in a run's folder have these checksums."""
    for name, checksum in files.items():
        path = Path(folder) / os.path.basename(name)
        if not path.exists() or sha256_of(path) != checksum:
            raise DataError(
                f"{path} is {'damaged' if path.exists() else 'missing'}. Put it back from a copy; the folder of the "
                "run's prepared data holds one."
            )


def _load(given: GivenVocabulary, output_dir: StrPath) -> Vocabularies:
    """Loads a run's given vocabularies from its own folder, or from where they came."""
    for named in (output_dir, given.path):
        place = fetch_url(os.fspath(named), SMALL.fullmatch)
        if not vocabulary_files.is_there(place) and not Path(place).is_file():
            continue
        source, target = vocabulary_files.load_given(place, say=False)
        if (source.checksum, target.checksum) == (given.source, given.target):
            return source, target
    raise DataError(
        f"The vocabulary that was given for {output_dir} (checksum {given.source[:12]}...) is neither there nor in "
        f"{given.path}; put it back, or start a new run."
    )


def write_vocabularies(output_dir: StrPath, store: Store) -> None:
    """Copies the data's vocabularies and tags into the run; DataError if its weights are of other vocabularies."""
    source, target = store.source_vocabulary, store.target_vocabulary
    if not has_weights(output_dir):  # files of an earlier start that saved no weights
        for name in (*file_names(), *store.codec.file_names):
            (Path(output_dir) / name).unlink(missing_ok=True)
    for name, vocabulary in by_file(source, target).items():
        path = Path(output_dir) / name
        if path.exists() and vocabulary_files.load(path).checksum != vocabulary.checksum:
            raise DataError(
                f"The vocabulary in {store.folder} is not the one that {output_dir} was trained with. Prepare the data "
                "as it was, or give another --output_dir."
            )
        replace_file(path, vocabulary.data)
    for name, text in store.outputs.files().items():
        _write_learned(Path(output_dir) / name, text)


def _write_learned(path: Path, text: str) -> None:
    if has_weights(path.parent) and not (path.exists() and path.read_text(encoding="utf-8") == text):
        _log.warning(
            "From here on outputs of %s are read with the %s of its data as they are now; it is not the one with which "
            "its scores were computed so far.",
            path.parent,
            path.name,
        )
    replace_file(path, text)


def open_run_data(spec: RunSpec, output_dir: StrPath) -> Store:
    """Opens the prepared data of a run; DataError if it is gone, or was prepared again with another vocabulary.

    Other data in the same vocabulary give a warning.
    """
    if without_data := spec.make_problem().without_data:
        raise DataError(f"{output_dir}: {without_data}")
    folder = spec.data_folder(output_dir) / spec.problem
    fetch(folder)
    store = open_store(folder)
    check_vocabulary(output_dir, store)
    if spec.data_sha256 != store.checksum:
        _log.warning(
            "warning: %s does not hold the data that %s was trained with: they were prepared again since, and "
            "differ. Scores computed on them are of other data.",
            store.folder,
            output_dir,
        )
    return store


def check_vocabulary(output_dir: StrPath, store: Store) -> None:
    """Raises DataError if a run's data have another vocabulary than the run: their ids mean other pieces."""
    if _checksums(load_pair(output_dir)) != _checksums((store.source_vocabulary, store.target_vocabulary)):
        raise DataError(
            f"The vocabulary in {store.folder} is not the one that {output_dir} was trained with: the data were "
            f"prepared again since. Prepare them with its vocabulary: --vocabulary={output_dir} of t2t-lite-datagen."
        )


def _checksums(vocabularies: Vocabularies) -> tuple[str, ...]:
    return tuple(vocabulary.checksum for vocabulary in vocabularies)
