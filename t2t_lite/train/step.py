"""One update: the same on one device or many.

A global batch has K micro-batches. R replicas take K / R each, in turn, and add up gradients of
(sum of token losses) / (real target tokens of the *global* batch); one all-reduce adds those of the replicas.
Dropout seeds follow from (run seed, step, micro-batch), so it does not matter which replica runs which part.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from t2t_lite.errors import TrainingError, UsageError
from t2t_lite.layers.dropout import fold_in
from t2t_lite.train.loss import smoothed_cross_entropy
from t2t_lite.train.optimizer import Adam


def turns(micro_batches: int, devices: int) -> int:
    """Returns how many micro-batches each device takes; UsageError unless all take the same number."""
    if micro_batches % devices:
        divisors = [str(n) for n in range(1, micro_batches + 1) if micro_batches % n == 0]
        raise UsageError(
            f"{devices} devices cannot share micro_batches={micro_batches} equally. "
            f"Use --devices={' or '.join(divisors)}, or make micro_batches a multiple of {devices} "
            "(which is another recipe: its batches are cut differently)."
        )
    return micro_batches // devices


class TrainStep:
    """Callable that makes one update.

    Args:
        model: maps (batch, seed) to logits; its variables were created under `strategy`.
        optimizer: made under `strategy` as well.
        strategy: OneDevice, Mirrored or MultiWorkerMirrored.
        micro_batches: K, a multiple of the number of replicas.
        label_smoothing, label_smoothing_over, clip_norm, seed: as in HParams.
        jit: compile a micro-batch's loss and gradients with XLA.
        packed: batches have segments and positions as well.
    """

    def __init__(
        self,
        model: Any,
        optimizer: Adam,
        strategy: tf.distribute.Strategy,
        *,
        micro_batches: int,
        label_smoothing: float,
        clip_norm: float,
        seed: int,
        jit: bool,
        label_smoothing_over: str = "all",
        packed: bool = False,
    ) -> None:
        self._model, self._optimizer, self._strategy = model, optimizer, strategy
        self._smoothing, self._clip_norm, self._seed = (label_smoothing, label_smoothing_over), clip_norm, seed
        self.replicas = strategy.num_replicas_in_sync
        self._turns = turns(micro_batches, self.replicas)
        # autograph=False: it would read the source again when a graph is traced, long after the start of a run, when
        # the files may have changed.
        micro = self._micro_gradients
        self._micro = tf.function(micro, jit_compile=True, autograph=False) if jit else micro
        kinds = ("", "_segment", "_position") if packed else ("",)
        names = [side + kind for side in ("source", "target") for kind in kinds]
        batch_spec = {name: tf.TensorSpec([micro_batches, None, None], tf.int32) for name in names}
        scalar = tf.TensorSpec([], tf.float32)
        signature = [batch_spec, tf.TensorSpec([2], tf.int32), scalar]
        self._step = tf.function(self._distributed, input_signature=signature, autograph=False)

    def __call__(self, batch: Mapping[str, np.ndarray], step: int, learning_rate: float) -> dict[str, Any]:
        """Makes update number `step`, from 1.

        Args:
            batch: int32 arrays [K, rows, length], padded with 0.
            learning_rate: of this step.

        Returns:
            float32 tensors "loss" (per real target token, in nats, label smoothing included) and "grad_norm"
            (before clipping). Where one is not finite the update was not applied.
        """
        rate = np.float32(self._optimizer.corrected_rate(learning_rate, step))
        try:
            result: dict[str, Any] = self._step(dict(batch), np.array([self._seed % 2**31, step], np.int32), rate)
        except tf.errors.ResourceExhaustedError as error:
            shapes = " and ".join(str(list(array.shape)) for array in batch.values())
            raise TrainingError(
                f"Step {step}: the device ran out of memory with a batch of {shapes} (micro-batches, rows, pieces). A "
                f"larger micro_batches makes the same update in smaller parts. {error.message.partition(chr(10))[0]}"
            ) from error
        return result

    def _distributed(self, batch: Mapping[str, Any], seed: Any, rate: Any) -> dict[str, Any]:
        results = self._strategy.run(self._replica_step, args=(batch, seed, rate))
        return {name: self._strategy.experimental_local_results(value)[0] for name, value in results.items()}

    def _replica_step(self, batch: Mapping[str, Any], seed: Any, rate: Any) -> dict[str, Any]:
        context = tf.distribute.get_replica_context()
        # Every replica sees the whole batch (token ids are small), so all know the global denominator.
        tokens = tf.maximum(tf.math.count_nonzero(batch["target"], dtype=tf.float32), 1.0)
        replica = tf.cast(context.replica_id_in_sync_group, tf.int32)

        def turn(i: Any) -> tuple[Any, list[Any]]:
            index = i * self.replicas + replica
            part = {name: array[index] for name, array in batch.items()}
            return self._micro(part, fold_in(seed, index), tokens)

        loss, gradients = turn(tf.constant(0))
        if self._turns > 1:
            loss, gradients = self._accumulate(turn, loss, gradients)
        if self.replicas > 1:
            loss, *gradients = context.all_reduce(tf.distribute.ReduceOp.SUM, [loss, *gradients])
        norm = tf.linalg.global_norm(gradients)
        if self._clip_norm:
            gradients, _ = tf.clip_by_global_norm(gradients, self._clip_norm, use_norm=norm)
        finite = tf.math.is_finite(loss) & tf.math.is_finite(norm)
        tf.cond(finite, lambda: self._update(gradients, rate), lambda: False)
        return {"loss": loss, "grad_norm": norm}

    def _accumulate(self, turn: Any, loss: Any, gradients: list[Any]) -> tuple[Any, list[Any]]:
        def body(i: Any, loss: Any, gradients: list[Any]) -> tuple[Any, Any, list[Any]]:
            more_loss, more = turn(i)
            return i + 1, loss + more_loss, [a + b for a, b in zip(gradients, more, strict=True)]

        # maximum_iterations and one iteration at a time: memory for one micro-batch, not for all of them.
        _, loss, gradients = tf.while_loop(
            lambda i, *_: i < self._turns, body, (tf.constant(1), loss, gradients), parallel_iterations=1
        )
        return loss, gradients

    def _update(self, gradients: list[Any], rate: Any) -> bool:
        self._optimizer.apply(gradients, rate)
        return True

    def _micro_gradients(self, part: Mapping[str, Any], seed: Any, tokens: Any) -> tuple[Any, list[Any]]:
        """Loss and gradients of one micro-batch, both divided by the global number of target tokens."""
        with tf.GradientTape() as tape:
            logits = self._model(part, seed=seed)
            labels = tf.reshape(part["target"], [-1])
            logits = tf.reshape(logits, [-1, logits.shape[-1]])
            weights = tf.cast(labels > 0, tf.float32) / tokens
            loss = smoothed_cross_entropy(logits, labels, weights, *self._smoothing)
        gradients = tape.gradient(loss, self._optimizer.variables)
        return loss, [tf.convert_to_tensor(g) for g in gradients]
