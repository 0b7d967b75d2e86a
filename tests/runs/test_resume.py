"""Which fields may change when a run goes on; checkpoints of other settings, vocabularies and formats."""

import dataclasses
import re
import typing
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from t2t_lite import config, registry
from t2t_lite.data import vocabulary_files
from t2t_lite.errors import DataError, UsageError
from t2t_lite.fields import Field
from t2t_lite.models.rnn_hparams import RnnHParams
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.runs.checkpoint import Checkpoints
from t2t_lite.runs.record import make_record, read_record
from t2t_lite.runs.resume import check_checkpoint, check_settings
from t2t_lite.runs.run_dir import RunSpec, make_model, read_run, write_run

ALWAYS = {
    *("train_steps", "log_every", "eval_every", "eval_lines", "save_every", "save_minutes", "keep_checkpoints"),
    *("average_checkpoints", "early_stopping", "jit", "remat", "beam_size", "length_penalty", "extra_length"),
    *("length_penalty_form", "unknown_output", "max_length_factor", "max_source_length", "decode_batch_tokens"),
    *("no_repeat_ngram_size", "min_length", "repetition_penalty"),
    *("coverage_penalty", "beam_groups", "diversity_strength"),
}
WITH_RESET = {
    *("adam_beta1", "adam_beta2", "adam_epsilon", "momentum", "schedule", "learning_rate_factor", "learning_rate"),
    *("warmup_steps", "decay_steps", "min_learning_rate", "halve_after", "halve_every", "patience", "clip_norm"),
    "weight_decay",
}


def _spec(hparams: config.HParams, **changes: str) -> RunSpec:
    return dataclasses.replace(RunSpec("toy_ende", {}, "data", None, "base", hparams.model, hparams), **changes)


def _another(field: Field) -> Any:
    """A value that is not the default."""
    if field.kind is bool:
        return not field.default
    if field.kind is str:
        return {"optimizer": "sgd", "schedule": "constant"}[field.name]
    if field.kind is int:
        return 2 * field.default or 2
    if field.kind is float:
        half, within = field.default / 2 or 0.5, field.meta.within
        return 2 * field.default if within and half < within.least else half
    return next(value for value in typing.get_args(field.kind) if value != field.default)


def _taken(cls: type[config.HParams], field: Field, reset: bool) -> bool:
    """Whether a run of the defaults may go on with another value of a field."""
    changed = cls(**{field.name: _another(field)})
    try:
        check_settings(_spec(cls()), _spec(changed), "run", reset_optimizer=reset)
    except UsageError as error:
        message = str(error)
    else:
        return True
    assert f"  {field.name}: {field.default!r} -> {_another(field)!r}\n" in message
    assert ("with --reset_optimizer" in message) is (field.name in WITH_RESET)
    return False


@pytest.mark.parametrize("cls", [TransformerHParams, RnnHParams])
def test_what_may_change_of_every_field(cls: type[config.HParams]) -> None:
    fields = config.fields(cls)
    assert {name for name, field in fields.items() if _taken(cls, field, reset=False)} == ALWAYS & fields.keys()
    taken = {name for name, field in fields.items() if _taken(cls, field, reset=True)}
    assert taken == (ALWAYS | WITH_RESET) & fields.keys()


def test_another_model_is_said_without_its_settings() -> None:
    with pytest.raises(UsageError) as caught:
        check_settings(_spec(TransformerHParams()), _spec(RnnHParams(seed=2)), "run")
    assert "settings:\n  model: 'transformer' -> 'rnn'\n  seed: 1 -> 2\nResume" in str(caught.value)


def test_a_checkpoint_of_another_format_is_refused(tmp_path: Path) -> None:
    spec = _spec(registry.hparams("rnn_tiny"), hparams_set="rnn_tiny")
    model, record = make_model(spec.model, spec.hparams, 9, 9, True), make_record(spec)
    now, later = (
        Checkpoints(tmp_path / str(i), model, record=each).save_weights("averaged", 3)
        for i, each in enumerate((record, record | {"format": 2}))
    )
    tf.train.Checkpoint(step=tf.Variable(3)).write(str(tmp_path / "model-3"))
    check_checkpoint(read_record(now), spec, now, training=True)
    for path, what in ((later, "the format number 2"), (str(tmp_path / "model-3"), "no format number")):
        said = re.escape(f"The checkpoint {path} has {what}; this version of t2t-lite reads format 1.")
        with pytest.raises(DataError, match=said):
            read_record(path)


@pytest.mark.parametrize("suffix", sorted(vocabulary_files.suffixes()))
def test_a_checkpoint_of_another_vocabulary(suffix: str) -> None:
    """Checks that every kind of vocabulary is compared; tags may be learned again."""
    name = f"vocabulary.source{suffix}"
    spec = dataclasses.replace(_spec(TransformerHParams()), files={name: 64 * "a", "tags.json": 64 * "c"})
    record = make_record(spec)
    check_checkpoint(record | {"files": {name: 64 * "a", "tags.json": 64 * "d"}}, spec, "model-1", training=True)
    for training in (True, False):
        with pytest.raises(DataError, match=rf"\n  {name}: checksum b{{12}}\.\.\. -> a{{12}}\.\.\.\n"):
            check_checkpoint(record | {"files": {name: 64 * "b"}}, spec, "model-1", training=training)


def test_the_class_of_a_runs_recipe_is_that_of_its_model(tmp_path: Path) -> None:
    """The set that the run began with may be one of another model (--model)."""
    hparams = TransformerHParams(num_layers=2, d_model=16, d_ff=16, num_heads=2)
    write_run(tmp_path, _spec(hparams, hparams_set="rnn_tiny"))
    assert read_run(tmp_path).hparams == hparams


def test_a_model_refuses_the_recipe_of_another() -> None:
    with pytest.raises(UsageError, match="The model 'rnn' needs a recipe of the class RnnHParams, not Transform"):
        make_model("rnn", registry.hparams("tiny"), 30, 30, True)
