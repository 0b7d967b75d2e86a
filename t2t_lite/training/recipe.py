"""A recipe's training settings, and what is built from them. The only reader of these fields of HParams."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import keras
import tensorflow as tf

from t2t_lite.config import HParams
from t2t_lite.data import pipeline
from t2t_lite.data.buckets import rows_of
from t2t_lite.data.plan import BucketPlan, Plan
from t2t_lite.data.store import TokenSplit
from t2t_lite.distributed.devices import Devices, share_processors, use_jit
from t2t_lite.distributed.workers import Workers
from t2t_lite.errors import UsageError
from t2t_lite.optimizers.base import Optimizer
from t2t_lite.training.accumulation import Shape
from t2t_lite.training.loop import Intervals
from t2t_lite.training.reproducibility import computed_with
from t2t_lite.training.step import TrainStep


def set_seed(hparams: HParams) -> None:
    """Seeds the random initial weights of the model that is built next."""
    keras.utils.set_random_seed(hparams.seed % 2**32)


def prepare_processors(hparams: HParams, devices: Devices) -> None:
    """Sets up threads on a CPU as the recipe's rows allow; call it before TensorFlow uses its devices."""
    [(rows, _, _)] = batch_shapes(hparams, None)
    share_processors(rows // (devices.number or 1), hparams.jit)


def recipe_computed_with(
    hparams: HParams, model: Any, strategy: tf.distribute.Strategy, workers: Workers, accumulate: int | None
) -> dict[str, Any]:
    """What the last bits of the recipe's weights depend on, as `computed_with` returns it."""
    return computed_with(strategy, workers, accumulate=accumulate, xla=uses_xla(hparams, model), remat=model.remat)


def recipe_plan(hparams: HParams, split: TokenSplit) -> Plan:
    """Returns the plan of a recipe's batches over `split`."""
    return pipeline.make_plan(
        split,
        batch_tokens=hparams.batch_tokens,
        max_length=hparams.max_length,
        packing=hparams.packing,
        seed=hparams.seed,
    )


def make_batches(
    hparams: HParams, split: TokenSplit, plan: Plan, first_step: int
) -> Generator[pipeline.Batch, None, None]:
    """Yields the batches of `plan` from `first_step` on."""
    return pipeline.batches(split, plan, packing=hparams.packing, first_step=first_step)


def batch_shapes(hparams: HParams, plan: Plan | None) -> list[Shape]:
    """(rows, source length, target length) of the batches of `plan`; without a plan, of the longest rows."""
    if isinstance(plan, BucketPlan):
        return [(b.rows, b.source_length, b.target_length) for b in plan.buckets]
    return [(rows_of(hparams.max_length, hparams.batch_tokens), hparams.max_length, hparams.max_length)]


def batch_limits(hparams: HParams) -> tuple[int, int]:
    """(batch_tokens, max_length) of a recipe."""
    return hparams.batch_tokens, hparams.max_length


def number_to_average(hparams: HParams) -> int:
    """Returns how many of the last checkpoints the recipe averages, at least 1."""
    return max(hparams.average_checkpoints, 1)


def number_to_keep(hparams: HParams) -> int:
    """Returns how many of the newest checkpoints are kept."""
    return max(hparams.keep_checkpoints, number_to_average(hparams))


def intervals_of(hparams: HParams) -> Intervals:
    """Returns how often the recipe evaluates and saves."""
    return Intervals(
        train_steps=hparams.train_steps,
        eval_every=hparams.eval_every,
        eval_lines=hparams.eval_lines,
        save_every=hparams.save_every,
        save_minutes=hparams.save_minutes,
        early_stopping=hparams.early_stopping,
    )


def uses_xla(hparams: HParams, model: Any) -> bool:
    """Whether XLA compiles training."""
    return model.xla and use_jit(hparams.jit)


def check_recipe(hparams: HParams, model: Any) -> None:
    """Raises UsageError if a recipe asks for packed rows or XLA and the model does not support them."""
    if hparams.jit == "on" and not model.xla:
        raise UsageError(
            f"jit=on: XLA cannot compile the training of a {type(model).__name__}. Leave jit at auto, which means "
            "plain graphs here."
        )
    if hparams.packing and not model.packs:
        raise UsageError(f"A {type(model).__name__} reads no packed rows: leave packing=true out.")


def make_step(
    hparams: HParams, model: Any, optimizer: Optimizer, strategy: tf.distribute.Strategy, accumulate: int
) -> TrainStep:
    """Returns the callable that makes one update, with `accumulate` parts of each device's share."""
    return TrainStep(
        model,
        optimizer,
        strategy,
        accumulate=accumulate,
        label_smoothing=hparams.label_smoothing,
        label_smoothing_over=hparams.label_smoothing_over,
        clip_norm=hparams.clip_norm,
        seed=hparams.seed,
        jit=uses_xla(hparams, model),
        packed=hparams.packing,
    )
