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

from t2t_lite.errors import TrainingError
from t2t_lite.layers.dropout import fold_in
from t2t_lite.train.devices import turns
from t2t_lite.train.loss import batch_loss
from t2t_lite.train.optimizer import Adam
from t2t_lite.train.workers import LOST, lost


class TrainStep:
    """Callable that makes one update.

    Args:
        model: as `Transformer`; its variables were created under `strategy`.
        optimizer: made under `strategy` as well.
        strategy: OneDevice, Mirrored or MultiWorkerMirrored.
        micro_batches: K, a multiple of the number of replicas.
        label_smoothing, label_smoothing_over, clip_norm, seed: as in HParams.
        jit: compile a micro-batch's loss and gradients with XLA.
        packed: batches have segments and positions as well.
        fill: some replicas take empty micro-batches where K is not a multiple of their number.
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
        fill: bool = False,
    ) -> None:
        self._model, self._optimizer, self.strategy = model, optimizer, strategy
        self._smoothing, self._clip_norm, self._seed = (label_smoothing, label_smoothing_over), clip_norm, seed
        self.replicas = strategy.num_replicas_in_sync
        self._turns = turns(micro_batches, self.replicas, fill=fill)
        self._parts = micro_batches
        # autograph=False: it would read the source again when a graph is traced, long after the start of a run, when
        # the files may have changed.
        micro = self._micro_gradients
        self._micro = tf.function(micro, jit_compile=True, autograph=False) if jit else micro
        kinds = ("", "_segment", "_position") if packed else ("",)
        names = [side + kind for side in ("source", "target") for kind in kinds]
        self._batch_spec = {name: tf.TensorSpec([self._turns * self.replicas, None, None], tf.int32) for name in names}
        scalars = [tf.TensorSpec([], kind) for kind in (tf.float32, tf.bool, tf.float32)]
        signature = [self._batch_spec, tf.TensorSpec([2], tf.int32), *scalars]
        self._step = tf.function(self._distributed, input_signature=signature, autograph=False)

    def __call__(
        self, batch: Mapping[str, np.ndarray], step: int, learning_rate: float, *, stop: bool = False
    ) -> dict[str, Any]:
        """Makes update number `step`, from 1.

        Args:
            batch: int32 arrays [K, rows, length], padded with 0.
            learning_rate: of this step.
            stop: whether this process would like to stop after it.

        Returns:
            float32 tensors "loss" (per real target token, in nats, label smoothing included), "grad_norm" (before
            clipping) and "stop" (above 0 where any process would like to stop). Where loss or norm is not finite the
            update was not applied.
        """
        rate = self._optimizer.corrected_rate(learning_rate, step)
        return self._run(batch, step, rate, apply=True, stop=stop, when=f"in step {step}")

    def rehearse(self, rows: int, source_length: int, target_length: int) -> None:
        """Makes forward and backward passes over full micro-batches of this shape, and no update.

        Weights, moments and all later updates stay as they are; only memory is taken as it will be.

        Raises:
            TrainingError: it does not suffice.
        """
        lengths = {"source": source_length, "target": target_length}
        batch = {
            name: np.ones((self._parts, rows, lengths[name.partition("_")[0]]), np.int32) for name in self._batch_spec
        }
        self._run(
            batch, 0, 0.0, apply=False, stop=False, when="when the largest micro-batch was tried before the first step"
        )

    def micro_batch(self, batch: Mapping[str, Any], step: Any, index: Any) -> tuple[Any, list[Any]]:
        """Loss and gradients of one micro-batch of update `step`, as the update adds them up."""
        tokens = tf.maximum(tf.math.count_nonzero(batch["target"], dtype=tf.float32), 1.0)
        return self._micro_gradients(*self._part(batch, step, index), tokens)

    def micro_logits(self, batch: Mapping[str, Any], step: Any, index: Any) -> Any:
        """Logits of the same micro-batch and dropout, which the loss makes by itself; to look at."""
        part, seed = self._part(batch, step, index)
        return self._model(part, seed=seed)

    def _part(self, batch: Mapping[str, Any], step: Any, index: Any) -> tuple[dict[str, Any], Any]:
        part = {name: array[index] for name, array in batch.items()}
        return part, fold_in(self._step_seed(step), index)

    def _step_seed(self, step: Any) -> np.ndarray:
        return np.array([self._seed % 2**31, step], np.int32)

    def _run(
        self, batch: Mapping[str, np.ndarray], step: int, rate: float, *, apply: bool, stop: bool, when: str
    ) -> Any:
        empty = self._turns * self.replicas - self._parts
        whole = {name: np.pad(array, ((0, empty), (0, 0), (0, 0))) if empty else array for name, array in batch.items()}
        try:
            return self._step(whole, self._step_seed(step), np.float32(rate), apply, np.float32(stop))
        except LOST as error:
            if isinstance(self.strategy, tf.distribute.MultiWorkerMirroredStrategy):
                raise lost(error) from error
            raise
        except tf.errors.ResourceExhaustedError as error:
            parts, rows, source = batch["source"].shape
            lines = str(error.message).split("\n")
            reason = next((line for line in lines if "allocat" in line), lines[0]).strip()
            raise TrainingError(
                f"The device ran out of memory {when}: a micro-batch of {rows} rows x ({source} + "
                f"{batch['target'].shape[2]}) pieces (micro_batches={parts}). Smaller parts of the same batch need "
                f"less: --hparams=micro_batches={2 * parts}, in a run that starts anew. Or lower batch_tokens or "
                f"max_length. ({reason})"
            ) from error

    def _distributed(self, batch: Mapping[str, Any], seed: Any, rate: Any, apply: Any, stop: Any) -> dict[str, Any]:
        results = self.strategy.run(self._replica_step, args=(batch, seed, rate, apply, stop))
        return {name: self.strategy.experimental_local_results(value)[0] for name, value in results.items()}

    def _replica_step(self, batch: Mapping[str, Any], seed: Any, rate: Any, apply: Any, stop: Any) -> dict[str, Any]:
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
            values = [loss, tf.identity(stop), *gradients]
            loss, stop, *gradients = context.all_reduce(tf.distribute.ReduceOp.SUM, values)
        norm = tf.linalg.global_norm(gradients)
        if self._clip_norm:
            gradients, _ = tf.clip_by_global_norm(gradients, self._clip_norm, use_norm=norm)
        finite = tf.math.is_finite(loss) & tf.math.is_finite(norm)
        tf.cond(finite & apply, lambda: self._update(gradients, rate), lambda: False)
        return {"loss": loss, "grad_norm": norm, "stop": stop}

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
            loss = batch_loss(self._model, part, tokens, *self._smoothing, seed=seed)
        gradients = tape.gradient(loss, self._optimizer.variables)
        return loss, [tf.convert_to_tensor(g) for g in gradients]
