"""What the last bits of a run's weights depend on: recorded in run.json, and restored where possible on resume.

Sums are computed in parts, and other parts give other last bits. On CPUs the parts follow from two numbers: the blocks
of rows that are computed in parallel, and the threads of an operation. They do not depend on how many processors then
do the work. So a run that moves to a machine with more or fewer processors keeps the two numbers that it began with.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from t2t_lite.cpus import available_cpus, processor
from t2t_lite.distributed.workers import Workers
from t2t_lite.distributed.xla import FLAGS
from t2t_lite.ops import threads
from t2t_lite.runs.checkpoint_files import NEWEST, list_whole, step_of
from t2t_lite.runs.run_log import read_starts
from t2t_lite.version import local_version

_UNEQUAL = "unequal"  # not the same in all workers
_IN_WORDS = {
    "processor": "processor",
    "devices": "devices",
    "workers": "workers",
    "accumulate": "parts of a device's share (--accumulate)",
    "side_by_side": "operations side by side",
    "threads": "threads of an operation",
    "xla": "XLA",
    "xla_flags": "XLA's flags",
    "remat": "remat",
    "tensorflow": "TensorFlow",
}


def read_computation(output_dir: str | os.PathLike[str]) -> Mapping[str, Any]:
    """Returns how the newest checkpoint of a run was computed; empty if there is none or run.json does not say it."""
    checkpoints = list_whole(Path(output_dir) / NEWEST)
    computed = _until(output_dir, step_of(checkpoints[-1])).get("computed") if checkpoints else None
    return computed if isinstance(computed, dict) else {}


def keep_last_bits(output_dir: str | os.PathLike[str]) -> None:
    """Makes this process compute as the run in this folder did until its newest checkpoint, if run.json says how.

    Must be called before TensorFlow has touched its devices. Does nothing on GPUs.
    """
    computed = read_computation(output_dir)
    num_parallel, per_operation = computed.get("side_by_side"), computed.get("threads")
    if isinstance(num_parallel, int) and isinstance(per_operation, int):
        threads.emulate(num_parallel, per_operation)


def describe_computation(
    strategy: tf.distribute.Strategy, workers: Workers, *, accumulate: int | None, xla: bool, remat: bool
) -> dict[str, Any]:
    """What the last bits depend on in this process; all workers must call it.

    Args:
        accumulate: parts of a device's share; None if there is nothing to train.

    Returns:
        A value for each of _IN_WORDS; xla_flags with XLA only. side_by_side and threads are None on GPUs, and _UNEQUAL
        where the workers differ.
    """
    gpus = tf.config.list_physical_devices("GPU")
    side_by_side, per_operation = threads.num_parallel(), threads.per_operation()
    mine = float(side_by_side * 10_000 + per_operation)
    unequal = workers.any(mine != workers.broadcast(mine))
    name = tf.config.experimental.get_device_details(gpus[0]).get("device_name", "GPU") if gpus else processor()
    return {
        "processor": name,
        "devices": strategy.num_replicas_in_sync,
        "workers": workers.count,
        "accumulate": accumulate,
        "side_by_side": None if gpus else _UNEQUAL if unequal else side_by_side,
        "threads": None if gpus else _UNEQUAL if unequal else per_operation,
        "xla": xla,
        **({"xla_flags": os.environ.get(FLAGS, "")} if xla else {}),
        "remat": remat,
        "tensorflow": tf.__version__,
    }


def remarks(output_dir: str | os.PathLike[str], first_step: int, now: Mapping[str, Any]) -> list[str]:
    """Returns what to say of the last bits of a run that resumes at `first_step`; called before run.json is written."""
    start = _until(output_dir, first_step - 1)
    before = start.get("computed")
    may = "the last bits of the weights may differ from those of a run that was never stopped"
    if not isinstance(before, dict):
        return [f"run.json does not say how the steps until {first_step - 1:,} were computed: {may}."]
    changes = [
        f"{words} {before.get(name)} -> {now.get(name)}"
        for name, words in _IN_WORDS.items()
        if before.get(name) != now.get(name) or now.get(name) == _UNEQUAL
    ]
    changes += [
        f"{words} {start.get(name)} -> {current}"
        for name, words, current in (("keras", "Keras", keras.__version__), ("version", "t2t-lite", local_version()))
        if start.get(name) != current
    ]
    if changes:
        return [f"From step {first_step:,} on {may}: {', '.join(changes)}."]
    there, kept = available_cpus(), threads.processors()
    if there == kept or now["threads"] is None:
        return []
    return [
        f"The run computes as if there were {kept} processor{'s' * (kept > 1)}, as before, so that its weights stay "
        f"the same to the last bit. This process may use {there}: TF_NUM_INTRAOP_THREADS={there} before the command "
        "uses them, as a rule faster, with other last bits."
    ]


def _until(output_dir: str | os.PathLike[str], step: int) -> dict[str, Any]:
    """Returns run.json's entry of the start that made `step`; empty if there is none."""
    for entry in reversed(read_starts(output_dir)):
        first = entry.get("first_step")
        if isinstance(first, int) and first <= step:
            return entry
    return {}
