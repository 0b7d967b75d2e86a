"""Warm start from another run's weights or whole training; its vocabularies must be those of the new data."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import tensorflow as tf

from t2t_lite.data.store import Store
from t2t_lite.errors import UsageError
from t2t_lite.runs.checkpoint import READ_ERRORS, Checkpoints, find, list_checkpoints, unreadable, variable_key
from t2t_lite.runs.run_checksums import check_files
from t2t_lite.runs.verify import read_record
from t2t_lite.text import vocabulary_files
from t2t_lite.text.vocabulary_files import FILES, AnyVocabulary, load_pair


def warm_start(
    checkpoints: Checkpoints, store: Store, warm_start_from: str, say: Callable[[str], None], with_optimizer: bool
) -> int:
    """Loads the weights of a run, or of one checkpoint of it; returns the step that the new run goes on from.

    Args:
        with_optimizer: also take the optimizer's slots and the step, from the named or else the newest checkpoint.

    Raises:
        UsageError: its vocabularies differ from the data's, so an id means another piece there.
        DataError: no such checkpoint, or one of another model; or its run's vocabulary is damaged.
    """
    bare = _is_checkpoint(warm_start_from)
    run = Path(warm_start_from).absolute().parents[1] if bare else Path(warm_start_from)
    if with_optimizer:
        path = _training_of(warm_start_from)
    elif bare:
        path = warm_start_from
    else:
        path = find(warm_start_from)
    record = read_record(path)
    if record is not None:
        known = record["files"] or {}
        check_files(run, {name: known[name] for name in known.keys() & {*FILES} if (run / name).is_file()})
    if vocabulary_files.is_there(run):
        _check_vocabularies(str(run) if bare else warm_start_from, store)
    else:
        say(
            f"{run} holds no vocabulary, so it could not be compared with the data's: the weights of {warm_start_from} "
            "are of use only if they were trained with the same one."
        )
    if with_optimizer:
        step = checkpoints.load_training(path)
        say(f"Going on with the training of {warm_start_from}, step {step:,}: its weights and its optimizer's slots.")
        return step
    say(f"Starting from the weights of {warm_start_from}, step {checkpoints.load_weights(path):,}.")
    return 0


def check_steps(warm_start_from: str, train_steps: int) -> None:
    """Raises UsageError if a training that goes on from another run's step has no updates left to make."""
    path = _training_of(warm_start_from)
    try:
        step = int(tf.train.load_checkpoint(path).get_tensor(variable_key("step")))
    except READ_ERRORS as error:
        raise unreadable(path, error) from error
    if step >= train_steps:
        raise UsageError(
            f"--with_optimizer: {warm_start_from} is at step {step:,}, and train_steps={train_steps:,} counts its "
            f"updates, too, so that none is left. Give --train_steps=N above {step:,}, or leave --with_optimizer out."
        )


def _is_checkpoint(path: str) -> bool:
    return os.path.exists(path + ".index")


def _training_of(warm_start_from: str) -> str:
    """The named checkpoint, or the one from which the run's own training would go on."""
    paths = [warm_start_from] if _is_checkpoint(warm_start_from) else list_checkpoints(warm_start_from)
    if not paths:
        find(warm_start_from)  # an error if there is no checkpoint of any kind
        raise UsageError(
            f"--with_optimizer: {warm_start_from} holds weights alone. Leave the flag out, or, for an imported model, "
            "import it again with t2t-lite-import --with_optimizer."
        )
    return paths[-1]


def _check_vocabularies(run: str, store: Store) -> None:
    theirs, ours = load_pair(run), (store.source_vocabulary, store.target_vocabulary)
    if [vocabulary.checksum for vocabulary in theirs] == [vocabulary.checksum for vocabulary in ours]:
        return
    raise UsageError(
        f"The weights of {run} were trained with another vocabulary ({_shown(theirs)}) than that of the data in "
        f"{store.folder} ({_shown(ours)}): the same id is another piece there. Prepare the data with its vocabulary, "
        f"--vocabulary={run}, in another --data_dir or with --prepare_again."
    )


def _shown(vocabularies: tuple[AnyVocabulary, AnyVocabulary]) -> str:
    """Sizes and checksums; only one of each if both sides share a vocabulary."""
    texts = [f"{vocabulary.size:,} pieces, checksum {vocabulary.checksum[:12]}..." for vocabulary in vocabularies]
    return " and ".join(dict.fromkeys(texts))
