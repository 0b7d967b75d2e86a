"""FLOPs of a training run (`Cost` of models/base.py), and the share of the devices' speed that it reaches.

Only real tokens count, not padding, and each pair counts by its own lengths. The pairs of a packed row count one by
one, as if each had a row of its own. What a device computes on padding, or between the pairs of a row, is lost
utilisation.
"""

import math
import os
import time
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from t2t_lite.data.plan import Plan
from t2t_lite.data.store import TokenSplit
from t2t_lite.distributed.cluster import read_cluster
from t2t_lite.distributed.devices import on_gpus
from t2t_lite.models.base import Cost
from t2t_lite.ops import threads
from t2t_lite.ops.graph import graph

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


def planned_flops(cost: Cost, split: TokenSplit, plan: Plan, steps: int, after: int = 0) -> int:
    """Model FLOPs of the updates `after` + 1 to `steps` of a run; exactly, unless each epoch draws pieces again."""

    def of(first: int, last: int) -> int:
        total = 0
        for step in range(first, last + 1):
            rows = plan.batch(step).rows
            pairs = rows[rows >= 0]
            total += cost.training_flops(*split.expected_lengths(pairs))
        return total

    begin, end = -(-after // plan.steps_per_epoch), steps // plan.steps_per_epoch  # the whole epochs
    if begin >= end:
        return of(after + 1, steps)
    lengths = map(split.expected_lengths, plan.kept_pairs())
    whole = (end - begin) * sum(cost.training_flops(*(side.astype(np.int64) for side in sides)) for sides in lengths)
    return of(after + 1, begin * plan.steps_per_epoch) + whole + of(end * plan.steps_per_epoch + 1, steps)


def device_flops_per_second(strategy: tf.distribute.Strategy, dtype: str) -> float:
    """Returns the FLOPs per second of all devices of `strategy` in plain matrix products.

    Measured for a fraction of a second: the best of some products of square matrices of `dtype`, as TensorFlow computes
    them (float32 in TensorFloat-32 on GPUs that have it). The rate of the first GPU is multiplied by their number. On
    CPUs as many products run at the same time as operations in training, and their rates add up, times the number of
    machines; logical CPUs and workers on one machine share it and count once. Other work on the machine makes the
    result too low.
    """
    gpu = on_gpus()
    # Large enough to fill a GPU; on a CPU, short enough to finish before a process switch.
    sizes, repeats = ((4096,), 10) if gpu else ((384, 512), 1)
    multiply = graph(tf.linalg.matmul)

    def rate(_: int) -> float:
        with tf.device("/GPU:0" if gpu else "/CPU:0"):
            matrices = [tf.cast(tf.random.stateless_normal((n, n), (1, 1)), dtype) for n in sizes]
            best, end = 0.0, math.inf
            while time.perf_counter() < end:
                for matrix, size in zip(matrices, sizes, strict=True):
                    start = time.perf_counter()
                    for _ in range(repeats):  # a GPU takes them one after the other, without waiting for Python
                        product = multiply(matrix, matrix)
                    product[0, 0].numpy()
                    best = max(best, 2.0 * size**3 * repeats / (time.perf_counter() - start))
                end = min(end, time.perf_counter() + _MEASURED_SECONDS)  # the first round compiles
        return best

    return sum(threads.parallel_map(rate, range(1 if gpu else threads.num_parallel()))) * (
        strategy.num_replicas_in_sync if gpu else _machines(strategy)
    )


def _machines(strategy: tf.distribute.Strategy) -> int:
    multi = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
    cluster = read_cluster(os.environ) if multi else None
    return len({address.rpartition(":")[0] for address in cluster.addresses}) if cluster else 1
