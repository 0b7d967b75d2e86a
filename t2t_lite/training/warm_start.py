"""Warm start: the weights of another run, or its whole training, whose vocabularies must be those of the new data."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from t2t_lite.data.store import Store
from t2t_lite.errors import UsageError
from t2t_lite.runs.checkpoint import Checkpoints, find, list_checkpoints
from t2t_lite.runs.run_checksums import check_files
from t2t_lite.runs.verify import read_record
from t2t_lite.text import vocabulary_files
from t2t_lite.text.vocabulary_files import FILES, AnyVocabulary, load_pair


def warm_start(
    checkpoints: Checkpoints, store: Store, warm_start_from: str, say: Callable[[str], None], with_optimizer: bool
) -> int:
    """Loads the weights of a run, or of one checkpoint of it; returns the step that the new run goes on from.

    Args:
        with_optimizer: takes the optimizer's slots and the step as well, of the run's newest checkpoint.

    Raises:
        UsageError: its vocabularies are others than the data's: an id means another piece there.
        DataError: no such checkpoint, or one of another model; or its run's vocabulary is damaged.
    """
    bare = os.path.exists(warm_start_from + ".index")
    run = Path(warm_start_from).absolute().parents[1] if bare else Path(warm_start_from)
    if bare:
        path = warm_start_from
    elif with_optimizer:
        path = _newest(run)
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


def _newest(run: Path) -> str:
    """The checkpoint from which its own training would go on."""
    paths = list_checkpoints(run)
    if not paths:
        raise UsageError(
            f"--with_optimizer: {run} holds weights alone. Leave the flag out, or, for an imported model, import it "
            "again with t2t-lite-import --with_optimizer."
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
    """Sizes and checksums; once where both sides share one."""
    texts = [f"{vocabulary.size:,} pieces, checksum {vocabulary.checksum[:12]}..." for vocabulary in vocabularies]
    return " and ".join(dict.fromkeys(texts))
