"""The lines printed before the first update: model, devices, data, time and where the figures go."""

from __future__ import annotations

import math
import os
from typing import Any

import tensorflow as tf

from t2t_lite.cpus import available_cpus
from t2t_lite.data.plan import Plan
from t2t_lite.data.store import Store
from t2t_lite.ops import threads
from t2t_lite.runs.metrics_log import BOARD_FOLDER, METRICS_FILE
from t2t_lite.runs.run_dir import RunSpec
from t2t_lite.schedules.base import Schedule

_MANY_EPOCHS = 200  # parsing_small, which is made for few trees, has about 140
_USUAL_EPOCHS = 50  # multi30k on its data has up to 130, small on 100,000 pairs some 65, base on WMT 2014 about 20


def start_lines(
    output_dir: str | os.PathLike[str], spec: RunSpec, model: Any, store: Store, plan: Plan, steps: int, devices: str
) -> list[str]:
    """Returns five lines: the recipe of a run in figures.

    Args:
        steps: of the whole training.
        devices: what they are, and how they share a batch.
    """
    parameters = sum(math.prod(weight.shape) for weight in model.weights)
    source, target = store.source_vocabulary, store.target_vocabulary
    pieces = f"{source.size:,}" if source is target else f"{source.size:,} and {target.size:,}"
    pairs = store.manifest["splits"]["train"]["pairs"]
    folder = os.fspath(output_dir)
    return [
        f"model:    {spec.model}, hparams set {spec.hparams_set}: {parameters:,} parameters",
        f"devices:  {devices}",
        f"data:     {spec.problem}: {pairs:,} pairs, vocabulary of {pieces} pieces; {plan.steps_per_epoch:,} steps per "
        f"epoch, {steps:,} steps are {_number(steps / plan.steps_per_epoch)} epochs",
        "time:     measured over the first updates; a line then says it",
        f"metrics:  {os.path.join(folder, METRICS_FILE)}; tensorboard --logdir={os.path.join(folder, BOARD_FOLDER)}",
    ]


def start_warnings(spec: RunSpec, store: Store, plan: Plan, schedule: Schedule, steps: int) -> list[str]:
    """Returns what is unusual about a training of `steps` updates in all."""
    found = (
        _length_warning(store, plan),
        *spec.make_problem().metric_warnings(store.text("dev")[1]),
        _epochs_warning(spec, store, plan, steps),
        schedule_warning(schedule, steps),
    )
    return [warning for warning in found if warning]


def _length_warning(store: Store, plan: Plan) -> str | None:
    """Returns a warning if the plan leaves pairs out as too long, else None."""
    if not plan.left_out:
        return None
    pairs = store.manifest["splits"]["train"]["pairs"]
    return (
        f"warning: {plan.left_out:,} of {pairs:,} training pairs ({plan.left_out / pairs:.2%}) have a side longer than "
        f"max_length={plan.max_length} pieces, and are left out. If they matter, raise max_length."
    )


def _epochs_warning(spec: RunSpec, store: Store, plan: Plan, steps: int) -> str | None:
    """Returns a warning if the recipe goes through the data hundreds of times, else None."""
    epochs = steps / plan.steps_per_epoch
    if epochs <= _MANY_EPOCHS:
        return None
    pairs = store.manifest["splits"]["train"]["pairs"]
    return (
        f"warning: {steps:,} steps of hparams set {spec.hparams_set} are {epochs:,.0f} epochs of {pairs:,} pairs; most "
        "models learn such data by heart long before. --hparams_set=tiny is for toys, multi30k for some 30,000 pairs, "
        "small for some 100,000, base for millions, parsing_small for a few thousand trees; or --train_steps="
        f"{_USUAL_EPOCHS * plan.steps_per_epoch} makes it {_USUAL_EPOCHS} epochs."
    )


def schedule_warning(schedule: Schedule, steps: int) -> str | None:
    """Returns a warning if the learning rate rises from the last but one of `steps` updates to the last, else None."""
    if steps < 2 or schedule(steps) <= schedule(steps - 1):
        return None
    return (
        f"warning: the learning rate still rises at the last update, step {steps:,}. Most of what a model learns comes "
        "after that: give more train_steps, or fewer warmup_steps."
    )


def device_text(strategy: tf.distribute.Strategy, workers: int) -> str:
    """Returns the name of the devices, such as "2 x NVIDIA H100" or "CPU, 8 processors" or "CPU, 2 of 8 processors".

    Args:
        workers: the number of processes.
    """
    number = strategy.num_replicas_in_sync
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        name = tf.config.experimental.get_device_details(gpus[0]).get("device_name", "GPU")
        text = f"{number} x {name}"
    else:
        available, used = available_cpus(), threads.processors()
        text = f"CPU, {f'{used} of {available}' if used < available else available} processors"
        text += f" as {number} logical devices" if number > 1 else ""
    return text + (f", in {workers} workers" if workers > 1 else "")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"
