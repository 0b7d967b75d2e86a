"""`t2t_lite.dataset`: the batches of a run's training, or of its dev or test set, as a tf.data.Dataset."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t2t_lite.api.load import LoadedRun
from t2t_lite.errors import DataError, UsageError
from t2t_lite.remote.store import is_url

if TYPE_CHECKING:
    from t2t_lite.config import HParams
    from t2t_lite.data.pipeline import Batch
    from t2t_lite.data.store import Store


def dataset(
    source: LoadedRun | str | os.PathLike[str],
    split: str = "train",
    hparams: str | None = None,
    *,
    overrides: Mapping[str, Any] | None = None,
    first_step: int = 1,
    steps: int | None = None,
    epochs: int | None = None,
    usr_dir: str | None = None,
) -> Any:
    """Returns batches as a tf.data.Dataset; needs no weights.

    Of "train", element N is the batch of update `first_step` + N - 1: the same pairs in the same rows, for the same
    recipe and data. Of "dev" and "test" each pair is in one row, longest pairs first, in rows of at most batch_tokens
    by the longer side (a longer pair is alone); nothing is packed or left out.

    Args:
        source: a run, its folder, or a folder or URL of prepared data, such as data/toy_ende.
        hparams: the hparams set that makes batches of prepared data; a run has its own.
        overrides: hparams of the set to change, such as {"batch_tokens": 4096}.
        first_step: the first update, from 1; a training loop of your own resumes with it.
        steps: how many batches.
        epochs: the last batch is that of this epoch, from 1; without `steps` and `epochs` there is no end.
        usr_dir: the folder of your own code, where the run was trained with such code.

    Returns:
        dicts of int32 [rows, length] "source" and "target", ids ended by EOS (1) and padded with 0. Packed batches have
        "source_segment" and "source_position" as well, and the same of the target; those of a recipe with
        guided_alignment "alignment" [rows, target length x source length]; those of weighted data "weight" [rows,
        target length], float32 as the bits of int32 (tf.bitcast). Cardinality is that of `steps` or `epochs`.

    Raises:
        DataError: there is no run and no prepared data at `source`, or no such split.
        UsageError: a setting that cannot be.
    """
    from t2t_lite.distributed.tensorflow_loading import load_tensorflow

    load_tensorflow()
    from t2t_lite.data.pipeline import assemble, by_length, make_plan
    from t2t_lite.data.sampled_split import training_split
    from t2t_lite.data.shards import never
    from t2t_lite.data.windows import planned_batches

    store, recipe = _open(source, hparams, overrides, usr_dir and os.path.expanduser(usr_dir))
    batch = recipe.batch
    tokens = training_split(store, batch, recipe.seed) if split == "train" else store.split(split)
    if split != "train":
        if (first_step, steps, epochs) != (1, None, None):
            raise UsageError(f"first_step, steps and epochs are for the split 'train'; {split!r} is read once.")
        planned = [*by_length(tokens, batch.batch_tokens)]
        return _from_batches(lambda: (assemble(tokens, one, False) for one in planned), len(planned))
    for name, value in {"first_step": first_step, "steps": steps, "epochs": epochs}.items():
        if value is not None and (not isinstance(value, int) or value < 1):
            raise UsageError(f"{name}={value!r} must be a whole number from 1 on.")
    plan = make_plan(tokens, batch, recipe.seed)
    if steps is not None and epochs is not None:
        raise UsageError("Give steps or epochs, not both.")
    if epochs is not None:
        steps = epochs * plan.steps_per_epoch - first_step + 1
        if steps < 1:
            last = epochs * plan.steps_per_epoch
            raise UsageError(f"first_step={first_step:,} is after epoch {epochs}, which ends with update {last:,}.")
    packing, aligned = recipe.batch.packing, getattr(recipe, "guided_alignment", 0.0) > 0

    def batches() -> Iterator[Batch]:
        with contextlib.closing(planned_batches(tokens, plan, first_step, never)) as planned:
            yield from (assemble(*one, packing, aligned) for one in itertools.islice(planned, steps))

    return _from_batches(batches, steps)


def _open(
    source: LoadedRun | str | os.PathLike[str],
    hparams: str | None,
    overrides: Mapping[str, Any] | None,
    usr_dir: str | None,
) -> tuple[Store, HParams]:
    """Returns the prepared data and the recipe."""
    from t2t_lite import registry
    from t2t_lite.data.store import MANIFEST, copy_from, open_store
    from t2t_lite.runs.recipe_request import RecipeRequest
    from t2t_lite.runs.run_data import open_run_data
    from t2t_lite.runs.run_dir import has_run, read_run

    if is_url(source) and (copy := copy_from(str(source))):
        source = copy
    is_run = isinstance(source, LoadedRun) or has_run(Path(source).expanduser())
    if is_run and (hparams is not None or overrides):
        raise UsageError("A run has its own recipe: leave out hparams and overrides, or name the folder of its data.")
    if isinstance(source, LoadedRun):
        run, *others = source._run.members
        if others:
            raise UsageError("An ensemble has no batches of its own; give one of its runs.")
        return run.store(), run.spec.hparams
    folder = Path(source).expanduser()
    if is_run:
        spec = read_run(folder, usr_dir)
        return open_run_data(spec, folder), spec.hparams
    if not (folder / MANIFEST).exists():
        raise DataError(
            f"{folder} is neither a run nor prepared data, which are in data/NAME after t2t-lite-datagen "
            "--problem=NAME --data_dir=data."
        )
    if hparams is None:
        raise UsageError(f"{folder} is prepared data: name the hparams set of the batches, such as hparams='base'.")
    registry.load_plugins(usr_dir)
    return open_store(folder), RecipeRequest(hparams_set=hparams, overrides=overrides or {}).make("").hparams


def _from_batches(make: Callable[[], Iterator[Batch]], number: int | None) -> Any:
    import tensorflow as tf

    first = next(make())
    signature = {name: tf.TensorSpec([None, None], tf.int32) for name in first}
    cardinality = tf.data.INFINITE_CARDINALITY if number is None else number
    made = tf.data.Dataset.from_generator(make, output_signature=signature)
    return made.apply(tf.data.experimental.assert_cardinality(cardinality)).prefetch(4)
