"""Messages between the processes of a training run, besides gradients. A single process sends none."""

import functools
import hashlib
import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from t2t_lite.distributed.cluster import read_cluster
from t2t_lite.errors import TrainingError, UsageError

# What a collective raises when a process that takes part in it has gone.
LOST = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.InternalError,
)
# What TensorFlow writes around the line that says what happened: where the operation stands in the code and the graph.
_TRACE = re.compile(r"\s*$|Graph execution error:|Detected at node|Node: |  File |<stack traces|\s*\[\[|\d+ root error")
_OF_OTHERS = re.compile(r"collective|connect|socket|remote|nccl", re.IGNORECASE)


class Workers:
    """The processes under one strategy. All must call the same methods in the same order.

    Attributes:
        count: how many there are.
        is_chief: whether this is the one that evaluates and writes.
    """

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        multi = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
        cluster = read_cluster(os.environ) if multi else None
        self.count = len(cluster.addresses) if cluster else 1
        self.is_chief = cluster is None or cluster.is_chief
        self._index = cluster.index if cluster else 0
        self._strategy = strategy

        def on_replica(values: Any) -> Any:
            here = tf.identity(values)  # on the replica's device
            return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, here)

        def total(values: Any) -> Any:
            return strategy.experimental_local_results(strategy.run(on_replica, args=(values,)))[0]

        signature = [tf.TensorSpec([], tf.float64)]
        self._total = tf.function(functools.partial(total), input_signature=signature, autograph=False)

    def broadcast(self, value: float) -> float:
        """Returns the chief's value; those of the others are ignored."""
        replicas = self._strategy.num_replicas_in_sync // self.count
        return value if self.count == 1 else self._sum(value if self.is_chief else 0.0) / replicas

    def any(self, flag: bool) -> bool:
        """Whether `flag` is true in any of the processes."""
        return flag if self.count == 1 else self._sum(float(flag)) > 0

    def barrier(self) -> None:
        """Returns when all processes have called it."""
        self.any(False)

    def check_same(self, facts: Mapping[str, object]) -> None:
        """Raises UsageError in all processes unless `facts` are the same in all."""
        differing = []
        for name, fact in facts.items():
            digest = hashlib.sha256(repr(fact).encode()).digest()
            mine = float(int.from_bytes(digest[:6], "big"))  # 48 bits: exact in a float64, also after a division
            if self.any(mine != self.broadcast(mine)):
                differing.append(name)
        if differing:
            shown = ", ".join(f"{name}: {_short(facts[name])}" for name in differing)
            raise UsageError(
                f"The workers do not agree on {' and '.join(differing)}. All need the same command, prepared data and "
                f"--output_dir. Here (worker {self._index}): {shown}."
            )

    def _sum(self, value: float) -> float:
        try:
            return float(self._total(np.float64(value)))
        except LOST as error:
            raise worker_error(error) from error


def worker_error(error: tf.errors.OpError) -> TrainingError:
    """The error to raise when another process has gone, or an operation of this one failed; with TensorFlow's line."""
    lines = [line.strip() for line in str(error.message).split("\n") if not _TRACE.match(line)] or ["no reason given"]
    reason = next(filter(_OF_OTHERS.search, lines), lines[0])
    ours = isinstance(error, tf.errors.InternalError) and not _OF_OTHERS.search(reason)
    what = (
        "An operation of this worker failed, so the training ends."
        if ours
        else "Another worker has ended or cannot be reached, so this one ends, too."
    )
    return TrainingError(
        f"{what} Start all workers again with the same commands: the run resumes from its newest checkpoint. ({reason})"
    )


def _short(fact: object) -> str:
    text = str(fact)
    return text if len(text) <= 60 else f"{hashlib.sha256(text.encode()).hexdigest()[:12]} (digest)"
