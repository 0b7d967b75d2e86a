"""What a training costs in FLOPs of the model (models/flops.py), and how much of the devices' speed that is.

Counted are real tokens, not padding, each pair by its own lengths; the pairs of a packed row are counted one by one,
as if each stood in a row of its own. What a device computes on padding, or between the pairs of a row, is lost
utilisation.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from t2t_lite import threads
from t2t_lite.data.pipeline import Plan
from t2t_lite.data.store import TokenSplit
from t2t_lite.models.flops import Sizes
from t2t_lite.train.devices import on_gpus

_MEASURED_SECONDS = 0.3


def pair_lengths(batch: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Source and target lengths, int [pairs], of a batch as pipeline.batches yields it; empty rows have length 0."""
    segments = [batch.get(f"{side}_segment", batch[side] > 0) for side in ("source", "target")]
    slots = 1 + max(int(array.max(initial=0)) for array in segments)

    def lengths(array: np.ndarray) -> np.ndarray:
        rows = array.reshape(-1, array.shape[-1])
        number = rows + slots * np.arange(len(rows))[:, None]  # of the pair; slot 0 of each row is its padding
        return np.bincount(number.ravel(), minlength=slots * len(rows)).reshape(-1, slots)[:, 1:].ravel()

    source, target = map(lengths, segments)
    return source, target


def planned_flops(sizes: Sizes, split: TokenSplit, plan: Plan, steps: int) -> int:
    """Model FLOPs of the first `steps` updates of a training, exactly."""
    epochs, rest = divmod(steps, plan.steps_per_epoch)

    def of(first: int, last: int) -> int:
        total = 0
        for step in range(first, last + 1):
            rows = plan.batch(step).rows
            pairs = rows[rows >= 0]
            total += sizes.training_flops(split.source.lengths[pairs], split.target.lengths[pairs])
        return total

    # Each epoch has all pairs once, so the first stands for all but the last.
    whole = epochs * of(1, plan.steps_per_epoch) if epochs else 0
    return whole + of(steps - rest + 1, steps)


def device_flops_per_second(strategy: tf.distribute.Strategy, dtype: str) -> float:
    """How many FLOPs all devices of `strategy` do in a second of nothing but matrix products.

    Measured for a fraction of a second: the best of some products of large square matrices of `dtype`, as TensorFlow
    computes them (float32 in TensorFloat-32 on GPUs that have it). On a GPU they are made one after the other; several
    GPUs count so many times as much. On CPUs as many are made at a time as training has operations under way; logical
    CPUs share one machine and count once. Other work on the machine makes it an underestimate.
    """
    gpu = on_gpus()
    size, repeats = (4096, 10) if gpu else (1024, 1)  # enough to fill the device
    numbers = np.random.default_rng(1).standard_normal((size, size), np.float32)
    multiply = tf.function(lambda a, b: tf.linalg.matmul(a, b), autograph=False)
    with tf.device("/GPU:0" if gpu else "/CPU:0"):
        matrix = tf.cast(tf.constant(numbers), dtype)

    def multiply_some(_: int) -> None:
        with tf.device("/GPU:0" if gpu else "/CPU:0"):  # the scope belongs to the thread
            for _ in range(repeats):  # a GPU takes them one after the other, without waiting for Python
                product = multiply(matrix, matrix)
            product[0, 0].numpy()

    together = 1 if gpu else threads.at_a_time()

    def seconds() -> float:
        start = time.perf_counter()
        list(threads.each(multiply_some, range(together)))
        return time.perf_counter() - start

    seconds()  # compiles
    end = time.perf_counter() + _MEASURED_SECONDS
    best = seconds()
    while time.perf_counter() < end:
        best = min(best, seconds())
    work = 2.0 * size**3 * repeats * together
    return work / best * (strategy.num_replicas_in_sync if gpu else 1)
