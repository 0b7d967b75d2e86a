"""Warm start from another run's weights or whole training; its vocabularies must be those of the new data."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from t2t_lite import config
from t2t_lite.config import HParams
from t2t_lite.data import vocabulary_files
from t2t_lite.data.store import Store
from t2t_lite.data.vocabulary_files import file_names, load_pair
from t2t_lite.errors import UsageError
from t2t_lite.runs.checkpoint import Checkpoints, find, list_checkpoints, variable_key
from t2t_lite.runs.checkpoint_reader import explain_unreadable, open_checkpoint, read_step
from t2t_lite.runs.named_weights import open_weights_path, parse_weights_path
from t2t_lite.runs.record import read_record
from t2t_lite.runs.run_data import check_files
from t2t_lite.runs.run_dir import RunSpec
from t2t_lite.text.any_vocabulary import AnyVocabulary

# Fields of models that do not change what given weights compute: those that only training or fresh weights depend on,
# besides all whose names end in "dropout"; and those that the shapes of the weights decide.
_OF_TRAINING = ("alignment_layer", "balance_groups", "balance_weight", "guided_alignment", "initial_weights")
_IN_SHAPES = ("d_k", "d_v", "num_decoder_layers", "max_positions")


def warm_start(
    checkpoints: Checkpoints,
    store: Store,
    spec: RunSpec,
    warm_start_from: str,
    say: Callable[[str], None],
    with_optimizer: bool,
) -> int:
    """Loads the weights of a run, or of one checkpoint of it; returns the step that the new run continues from.

    Args:
        spec: the new run's.
        with_optimizer: also take the optimizer's slots and the step, from the named or else the newest checkpoint.

    Raises:
        UsageError: its vocabularies differ from the data's, so an id means another piece there; or its model, or
            settings with which the same weights compute something else.
        DataError: no such checkpoint, or one of another model; or its run's vocabulary is damaged.
    """
    run, path = check_source(warm_start_from, spec.model, spec.hparams, with_optimizer)
    if vocabulary_files.is_there(run):
        _check_vocabularies(str(run), store)
    else:
        say(
            f"{run} holds no vocabulary, so it could not be compared with the data's: the weights of {warm_start_from} "
            "are of use only if they were trained with the same one."
        )
    if with_optimizer:
        step = checkpoints.load_training(path)
        say(f"Continuing the training of {warm_start_from}, step {step:,}: its weights and its optimizer's slots.")
        return step
    say(f"Starting from the weights of {warm_start_from}, step {checkpoints.load_weights(path):,}.")
    return 0


def check_source(warm_start_from: str, model: str, hparams: HParams, with_optimizer: bool) -> tuple[Path, str]:
    """Returns the run and the checkpoint that a warm start reads; its errors are those that need no data."""
    run, path = _find(warm_start_from, with_optimizer)
    record = read_record(path)
    known = record["files"]
    check_files(run, {name: known[name] for name in known.keys() & {*file_names()} if (run / name).is_file()})
    _check_model(record, model, hparams, warm_start_from)
    with explain_unreadable(path):
        step = read_step(open_checkpoint(path), variable_key("step")) if with_optimizer else 0
    if step >= hparams.train_steps:
        raise UsageError(
            f"--with_optimizer: {warm_start_from} is at step {step:,}, and train_steps={hparams.train_steps:,} counts "
            f"its updates, too, so that none is left. Give --train_steps=N above {step:,}, or leave --with_optimizer "
            "out."
        )
    return run, path


def find_run(warm_start_from: str) -> Path:
    """Returns the run whose weights a warm start reads."""
    return _find(warm_start_from, with_optimizer=False)[0]


def _find(warm_start_from: str, with_optimizer: bool) -> tuple[Path, str]:
    """Returns the run that a path names, and the path of its checkpoint.

    With the optimizer it is the one from which the run's own training would resume, unless another is named.
    """
    warm_start_from = open_weights_path(warm_start_from)
    path = warm_start_from.removesuffix(".index")
    named = parse_weights_path(warm_start_from)
    if named is None and os.path.exists(f"{path}.index"):  # a copy of a checkpoint, outside of a run's folders
        return Path(path).absolute().parents[1], path
    run, which = named or (Path(warm_start_from), None)
    if not with_optimizer or which is not None:
        return run, find(run, which)
    paths = list_checkpoints(run)
    if not paths:
        find(run)  # an error if there is no checkpoint of any kind
        raise UsageError(
            f"--with_optimizer: {warm_start_from} holds weights alone. Leave the flag out, or, for an imported model, "
            "import it again with t2t-lite-import --with_optimizer."
        )
    return run, paths[-1]


def _check_model(record: Mapping[str, Any], model: str, hparams: HParams, warm_start_from: str) -> None:
    """Raises UsageError unless this run's model computes the same from given weights as that of the record."""
    if record["model"] != model:
        raise UsageError(
            f"The weights of {warm_start_from} are of the model {record['model']}, and this run's is {model}. "
            f"Give --model={record['model']} and a recipe of it, or leave --warm_start_from out."
        )
    theirs, ours = record["hparams"], config.to_dict(hparams)
    compared = [
        field.name
        for field in config.model_fields(type(hparams))
        if field.meta.resume != "always" and field.name not in (*_OF_TRAINING, *_IN_SHAPES)
        if not field.name.endswith("dropout")
    ]
    changed = {name: theirs[name] for name in compared if name in theirs and theirs[name] != ours[name]}
    if changed:
        differences = ", ".join(f"{name}: {value} -> {ours[name]}" for name, value in changed.items())
        flags = ",".join(f"{name}={value}" for name, value in changed.items())
        raise UsageError(
            f"The weights of {warm_start_from} were trained in another model than this run's: {differences}. Give "
            f"--hparams={flags}, or leave --warm_start_from out."
        )


def _check_vocabularies(run: str, store: Store) -> None:
    theirs, ours = load_pair(run), (store.source_vocabulary, store.target_vocabulary)
    if [vocabulary.checksum for vocabulary in theirs] == [vocabulary.checksum for vocabulary in ours]:
        return
    raise UsageError(
        f"The weights of {run} were trained with another vocabulary ({_show(theirs)}) than that of the data in "
        f"{store.folder} ({_show(ours)}): the same id is another piece there. Prepare the data with its vocabulary, "
        f"--vocabulary={run}, in another --data_dir or with --prepare_again."
    )


def _show(vocabularies: tuple[AnyVocabulary, AnyVocabulary]) -> str:
    """Sizes and checksums; only one of each if both sides share a vocabulary."""
    texts = [f"{vocabulary.size:,} pieces, checksum {vocabulary.checksum[:12]}..." for vocabulary in vocabularies]
    return " and ".join(dict.fromkeys(texts))
