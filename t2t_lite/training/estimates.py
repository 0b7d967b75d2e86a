"""Estimates of the hours and the memory that a training needs, and of the memory that is available."""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import tensorflow as tf

from t2t_lite.config import HParams
from t2t_lite.distributed.devices import on_gpus
from t2t_lite.errors import UsageError
from t2t_lite.optimizers.choices import make_optimizer
from t2t_lite.runs.metrics_log import METRICS_FILE, read_metrics
from t2t_lite.runs.utilisation import device_flops_per_second

# The share of the speed of plain matrix products that a training reaches (benchmarks/README.md). On CPUs: the smallest
# and the largest of "One training step", rounded outwards. On GPUs: `base` on one H200, and half as much.
UTILISATION = (0.4, 0.85)
GPU_UTILISATION = {True: (0.1, 0.2), False: (0.015, 0.03)}  # with XLA, without
_LAST = 20  # newest training lines of metrics.jsonl, whose rates count: the first may be from other devices
_SMALL = 2**31  # bytes; for less, the available memory is not looked up
_SIDE = 1024  # of the matrix that stands for all weights
_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


class Hours(NamedTuple):
    """The hours that a training takes, between `least` and `most`, and what the figure is based on."""

    least: float
    most: float
    text: str


def expect_hours(
    planned: Callable[[int], float],
    steps: int,
    dtype: str,
    output_dir: str | os.PathLike[str] | None = None,
    *,
    xla: bool = False,
) -> Hours:
    """Returns the hours that a training of `steps` updates takes, and what the figure is based on.

    If the run in `output_dir` has trained already, the figure is based on its rate. Otherwise it is a range, based on
    the speed of matrix products of `dtype` on one device of this machine, measured for a fraction of a second.

    Args:
        planned: FLOPs of the first N updates.
        xla: whether XLA compiles the training.
    """
    flops = planned(steps)
    found = None if output_dir is None else _rate_of_run(output_dir)
    if found is not None:
        rate, step = found
        rest = _hours(max(flops - planned(step), 0) / rate)
        hours = flops / rate / 3600
        return Hours(
            hours,
            hours,
            f"hours expected: {_hours(flops / rate)} in all, {rest} from step {step:,}, without evaluations\n"
            f"  based on the {rate / 1e9:,.0f} GFLOP/s of this run's last lines in {METRICS_FILE}",
        )
    speed = device_flops_per_second(tf.distribute.get_strategy(), dtype)
    gpus = len(tf.config.list_physical_devices("GPU"))
    least, most = GPU_UTILISATION[xla] if gpus else UTILISATION
    fast, slow = (flops / speed / share for share in (most, least))
    low, high = _hours(fast), _hours(slow)
    device = "one GPU" if gpus else "the CPUs"
    return Hours(
        fast / 3600,
        slow / 3600,
        f"hours expected: {low} to {high} on {device} of this machine, without evaluations: an estimate\n"
        f"  based on matrix products at {speed / 1e9:,.0f} GFLOP/s, measured now (too low if the machine is busy); "
        f"trainings\n  have reached {100 * least:g}% to {100 * most:g}% of that (benchmarks/README.md)"
        + ("; XLA's compilations, a minute or more each, are not in it" if gpus and xla else "")
        + (f"; its {gpus} GPUs can share the work" if gpus > 1 else ""),
    )


def _hours(seconds: float) -> str:
    hours = seconds / 3600
    return f"{hours:,.0f}" if hours >= 10 else f"{hours:.1f}" if hours >= 1 else f"{hours:.2g}"


def _rate_of_run(output_dir: str | os.PathLike[str]) -> tuple[float, int] | None:
    """Median FLOPs per second of the last training lines, and the last step; None without any."""
    lines = [line for line in read_metrics(output_dir) if line.get("flops_per_second", 0) > 0]
    if not lines:
        return None
    rate = statistics.median(line["flops_per_second"] for line in lines[-_LAST:])
    return rate, lines[-1]["step"]


def check_memory(hparams: HParams, vocab_size: int) -> None:
    """Raises UsageError, before anything is built, if a recipe's model is far too large to be trained on this machine.

    Weights and the optimizer's moments are counted: with Adam 12 bytes per parameter. A model that needs more than
    twice the available memory is refused, however much may be swapped. Training checks the rest by a trial pass
    (training/step.py).
    """
    number, optimizer = hparams.parameters(vocab_size), make_optimizer(hparams, [])
    slots = optimizer.slot_shapes([_SIDE, _SIDE]).values()
    needed = number * 4 * (1 + sum(map(math.prod, slots)) / _SIDE**2)
    if needed < _SMALL:
        return
    there, whose = memory_there()
    if needed > 2 * there:
        raise UsageError(
            f"This recipe's model has at least {number:,} parameters; weights and {type(optimizer).__name__}'s moments "
            f"alone need {needed / 2**30:,.0f} GiB of memory per device. There are {there / 2**30:,.1f} GiB, {whose}. "
            "Choose a smaller recipe."
        )


def memory_there() -> tuple[int, str]:
    """Returns the memory available to a training on one device, in bytes, and the name of that memory."""
    return (min(gpu_memory()), "what TensorFlow can take on the smallest GPU") if on_gpus() else host_memory()


def gpu_memory() -> list[int]:
    """Returns the bytes of memory that TensorFlow can take on each GPU."""
    from tensorflow.python.client import device_lib

    return [d.memory_limit for d in device_lib.list_local_devices() if d.device_type == "GPU"]


def host_memory() -> tuple[int, str]:
    """Returns the memory of this machine, or of the container around this process, in bytes, and which of both."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in _CGROUP_LIMITS:
        try:
            limit = int(Path(path).read_text(encoding="ascii"))
        except (OSError, ValueError):  # no such group, or "max"
            continue
        if limit < total:
            return limit, "the limit of this container"
    return total, "this machine's, shared by all its devices"
