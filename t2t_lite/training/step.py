"""One update: the same on one device or many.

A global batch is split into parts (training/split.py), an equal number for each replica, which adds up gradients of
(sum of token losses) / (real target tokens of the *global* batch); one all-reduce adds those of the replicas.

A GPU works through its queue while Python continues, unless Python or the graph asks for a number that is still being
computed. So with XLA the graph has no branch, and the result of an update is read when the next update is given to the
device. TensorFlow lets a copy to or from a GPU wait for all work that the GPU has by then. So a thread begins to copy
the result of the update before, and the batch of the one after, before the GPU is given an update.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from t2t_lite.decoding.graph_store import GraphStore
from t2t_lite.distributed.workers import LOST, worker_error
from t2t_lite.errors import TrainingError
from t2t_lite.groups import OptimizerGroup
from t2t_lite.ops import threads
from t2t_lite.ops.batch_shards import seed_of_row
from t2t_lite.ops.graph import graph
from t2t_lite.optimizers.base import Optimizer
from t2t_lite.training.gradients import loss_and_gradients
from t2t_lite.training.loss import target_weights
from t2t_lite.training.split import Split


class StepResult(NamedTuple):
    """Result of an update.

    loss: per real target token, in nats, label smoothing included; with R-Drop without the divergence.
    grad_norm: the gradient's global norm before clipping, without the loss scale.
    stop: above 0 if any process would like to stop.
    applied: 1 if the update was applied or, in float16, left out so that the loss scale falls; 0 if it was bad.
    loss_scale: of the next update; only in float16.
    """

    loss: float
    grad_norm: float
    stop: float
    applied: float
    loss_scale: float = 0.0


class _Settings(NamedTuple):
    """Inputs of an update besides the batch, in one array; the optimizer's numbers follow them.

    tokens: target tokens of the global batch, or the sum of their weights.
    stop: whether this process would like to stop.
    strict: whether to leave this update out if the one before was left out.
    """

    tokens: float
    stop: float
    strict: float


class _Ahead(NamedTuple):
    """A coming update, and what a thread copies: its inputs to the device, and the newest result to the host."""

    batch: Mapping[str, np.ndarray]
    step: int
    settings: Sequence[float]
    copies: Future[tuple[Any, Any]]


_NONE = StepResult(0.0, 0.0, 0.0, 0.0)  # before the first update


class OutOfMemoryError(TrainingError):
    """A device has too little memory for a part of a batch."""


class TrainStep:
    """Callable that makes one update.

    Args:
        model: a `models.base.Model`; its variables were created under `strategy`.
        optimizer: of the model's trainable weights, in their order; made under `strategy` as well.
        strategy: OneDevice, Mirrored or MultiWorkerMirrored.
        settings: of which label_smoothing, label_smoothing_over, r_drop and clip_norm are read.
        accumulate: parts of a replica's share of a batch, which it computes one after the other.
        seed: the recipe's.
        jit: compile with XLA: one program for each shape of batches, and, for several devices, one for the update.
        packed: batches have segments and positions as well.
        weighted: batches have weights as well.
    """

    def __init__(
        self,
        model: Any,
        optimizer: Optimizer,
        strategy: tf.distribute.Strategy,
        settings: OptimizerGroup,
        *,
        accumulate: int,
        seed: int,
        jit: bool,
        packed: bool = False,
        weighted: bool = False,
    ) -> None:
        self._model, self._optimizer, self.strategy = model, optimizer, strategy
        self._smoothing = settings.label_smoothing, settings.label_smoothing_over
        self._clip_norm, self._r_drop, self._seed = settings.clip_norm, settings.r_drop, seed
        self.split = Split(strategy.num_replicas_in_sync, accumulate, model.balance_groups)
        self._jit = jit
        self._shards = 1 if jit else max(threads.num_parallel() // len(strategy.extended.worker_devices), 1)
        self._gradients, self._update = self._compile(self._sum_of_parts), self._compile(self._clip_and_apply)
        self._gradients_and_update = self._compile(self._sum_and_apply)
        kinds = ("", "_segment", "_position") if packed else ("",)
        names = [side + kind for side in ("source", "target") for kind in kinds]
        cut = [self.split.devices, self.split.accumulate, None, None]
        names += ["alignment"] * (model.guided_alignment > 0) + ["weight"] * weighted
        # TensorFlow keeps int32 in the host's memory, where XLA's programs would wait for copies of it.
        self._ids = tf.int64 if jit else tf.int32
        self._batch_spec = {name: tf.TensorSpec(cut, self._ids) for name in names}
        self._numbers = len(optimizer.numbers(0.0, optimizer.start + 1))
        self._none = _NONE[: len(_NONE) - (optimizer.loss_scale is None)]
        lengths = (len(_Settings._fields) + self._numbers, len(self._none))
        numbers = [tf.TensorSpec([length], tf.float32) for length in lengths]
        signature = [self._batch_spec, tf.TensorSpec([3], self._ids), *numbers]
        # autograph=False: it would read the source files again when a graph is traced. That may be long after the start
        # of a run, when the files may have changed.
        self._signature, self._step = signature, graph(self._distributed, input_signature=signature)
        # The newest update: its result, on the device; its batch and its number.
        self._newest: tuple[Any, Mapping[str, np.ndarray], int] | None = None
        self._device = strategy.extended.worker_devices[0] if jit and self.split.devices == 1 else "/CPU:0"
        self._thread = ThreadPoolExecutor(1, "t2t-lite-copies")
        self._ahead: _Ahead | None = None
        host = tf.nest.map_structure(lambda spec: tf.TensorSpec(spec.shape, tf.int32), signature[:2])
        host.append(tf.TensorSpec([lengths[0]], tf.float64))
        self._exchange = graph(self._copy_both_ways, input_signature=[*host, numbers[1]])

    def __call__(
        self,
        batch: Mapping[str, np.ndarray],
        step: int,
        learning_rate: float,
        *,
        stop: bool = False,
        after_bad: bool = True,
        following: tuple[Mapping[str, np.ndarray], float] | None = None,
    ) -> StepResult:
        """Starts update number `step`, from 1; a GPU still works on it after the return.

        The update is not applied if the loss or the gradient norm is not finite. If only the norm is not, and a loss
        scale can fall, that is no bad batch.

        Args:
            batch: int32 arrays [rows, length], padded with 0, as `pipeline.batches` yields them; aligned ones if the
                model has a guided_alignment.
            learning_rate: of this step.
            stop: whether this process would like to stop after it.
            after_bad: whether to apply it even if the update before was not applied.
            following: batch and learning rate of the next update, if they are known: the GPU gets them in time.

        Returns:
            The result of the update *before*; all zeros where there was none.
        """
        before = tf.constant(self._none) if self._newest is None else self._newest[0]
        wishes = float(stop), float(not after_bad and self._newest is not None)
        with self._explain(batch, f"in step {step}"):
            inputs = self._inputs(batch, step, self._settings(batch, step, learning_rate, wishes))
            if following is not None:
                self._ahead = self._begin_copies(following[0], step + 1, following[1], wishes, before)
            self._newest = self._step(*inputs, before), batch, step
            result = before if self._ahead is None else self._ahead.copies.result()[1]
            return StepResult(*result.numpy().tolist())

    def outcome(self) -> StepResult:
        """Waits for the newest update, and returns its result; all zeros where there was none."""
        if self._newest is None:
            return _NONE
        newest, batch, step = self._newest
        with self._explain(batch, f"in step {step}"):
            return StepResult(*newest.numpy().tolist())

    def warm_up(self, rows: int, source_length: int, target_length: int) -> None:
        """Runs forward and backward passes over a full batch of this shape without an update.

        Weights, moments and later updates do not change. This only allocates the memory that training will need.

        Raises:
            OutOfMemoryError: there is not enough memory.
        """
        lengths = {"source": source_length, "target": target_length, "weight": target_length}
        lengths["alignment"] = target_length * source_length
        batch = {name: np.ones((rows, lengths[name.partition("_")[0]]), np.int32) for name in self._batch_spec}
        with self._explain(batch, "when the largest batch was tried before the first step"):
            settings = (*_Settings(_tokens(batch), 0.0, strict=1.0), *[0.0] * self._numbers)
            self._step(*self._inputs(batch, 0, settings), tf.constant(self._none)).numpy()

    def keep(self, store: GraphStore) -> None:
        """Takes the graph of an update from a store, or traces it now and keeps it there."""
        self._step = store.keep(self._step, self._signature)

    def part_gradients(self, batch: Mapping[str, Any], step: Any, part: Any) -> tuple[Any, list[Any]]:
        """Loss and gradients of one part of update `step`, as the update adds them up.

        Args:
            batch: as `Split.cut` returns it.
            part: its number, int32 scalar.
        """
        tokens = tf.reduce_sum(target_weights(batch))
        tokens = tf.where(tokens > 0, tokens, 1.0)
        return self._gradients_of(self._part(batch, part), self._step_seed(step), part, tokens)

    def part_logits(self, batch: Mapping[str, Any], step: Any, part: Any) -> Any:
        """Returns the logits of the same part with the same dropout, that of R-Drop's first pass, for inspection."""
        rows = self._part(batch, part)
        return self._model(rows, seed=_part_seed(self._step_seed(step), part, rows))

    def _part(self, batch: Mapping[str, Any], part: Any) -> dict[str, Any]:
        return {name: array[part % self.split.devices, part // self.split.devices] for name, array in batch.items()}

    def _step_seed(self, step: Any) -> np.ndarray:
        return np.array([self._seed % 2**31, step, 0], np.int32)

    def _compile(self, function: Any) -> Any:
        return graph(function, jit_compile=True) if self._jit else function

    def _settings(
        self, batch: Mapping[str, np.ndarray], step: int, learning_rate: float, wishes: tuple[float, float]
    ) -> Sequence[float]:
        return (*_Settings(_tokens(batch), *wishes), *self._optimizer.numbers(learning_rate, step))

    def _inputs(self, batch: Mapping[str, np.ndarray], step: int, settings: Sequence[float]) -> Any:
        """Those that were copied ahead, if they are these, or new copies."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead.batch is batch and (ahead.step, ahead.settings) == (step, settings):
            return ahead.copies.result()[0]
        arrays = self.split.cut(batch), self._step_seed(step), np.array(settings, np.float32)
        return tf.nest.map_structure(self._copy, arrays)

    def _copy(self, array: np.ndarray) -> Any:
        with tf.device(self._device):
            return tf.constant(array, self._ids if array.dtype == np.int32 else tf.float32)

    def _begin_copies(
        self,
        batch: Mapping[str, np.ndarray],
        step: int,
        learning_rate: float,
        wishes: tuple[float, float],
        result: Any,
    ) -> _Ahead:
        settings = self._settings(batch, step, learning_rate, wishes)
        cut, seed = self.split.cut(batch), self._step_seed(step)
        with tf.device("/CPU:0"):
            numbers = tf.constant(settings, tf.float64)
        return _Ahead(batch, step, settings, self._thread.submit(self._exchange, cut, seed, numbers, result))

    def _copy_both_ways(self, batch: Mapping[str, Any], seed: Any, settings: Any, result: Any) -> Any:
        """The inputs of a coming update on the device; the result of an update on the host."""
        with tf.device("/CPU:0"):
            result = tf.identity(result)
            # What an operation writes for a GPU is in pinned memory: the copy does not block other calls of the host.
            ids = tf.nest.map_structure(lambda array: tf.cast(array, self._ids), (batch, seed))
            numbers = tf.cast(settings, tf.float32)
        with tf.device(self._device):
            return tf.nest.map_structure(tf.identity, (*ids, numbers)), result

    @contextlib.contextmanager
    def _explain(self, batch: Mapping[str, np.ndarray], when: str) -> Iterator[None]:
        try:
            yield
        except LOST as error:
            if isinstance(self.strategy, tf.distribute.MultiWorkerMirroredStrategy):
                raise worker_error(error) from error
            raise
        except tf.errors.ResourceExhaustedError as error:
            (rows, source), target = batch["source"].shape, batch["target"].shape[1]
            n, accumulate = self.split.part_rows(rows), self.split.accumulate
            lines = str(error.message).split("\n")
            reason = next((line for line in lines if "allocat" in line), lines[0]).strip()
            advice = "In a new run, lower batch_tokens or max_length."
            if not self.split.is_finest(rows):
                advice = f"Smaller parts need less, and change no result: --accumulate={2 * accumulate}."
            raise OutOfMemoryError(
                f"The device ran out of memory {when}: {n} rows x ({source} + {target}) pieces at once, of the batch's "
                f"{rows} rows (accumulate={accumulate}). {advice} ({reason})"
            ) from error

    def _distributed(self, batch: Mapping[str, Any], seed: Any, settings: Any, before: Any) -> Any:
        outcomes = self.strategy.run(self._replica_step, args=(batch, seed, settings, before))
        return self.strategy.experimental_local_results(outcomes)[0]

    def _replica_step(self, batch: Mapping[str, Any], seed: Any, settings: Any, before: Any) -> Any:
        if self.split.devices == 1:
            return self._gradients_and_update(batch, seed, settings, before)
        context = tf.distribute.get_replica_context()
        replica = tf.cast(context.replica_id_in_sync_group, tf.int32)
        # Every replica is given the whole batch (token ids are small) and takes its parts.
        share = {name: array[replica] for name, array in batch.items()}
        tokens, stop, *_ = tf.unstack(settings)
        loss, gradients = self._gradients(share, seed, replica, tokens)
        loss, stop, *gradients = context.all_reduce(tf.distribute.ReduceOp.SUM, [loss, stop, *gradients])
        return self._update(loss, gradients, stop, settings, before)

    def _sum_and_apply(self, batch: Mapping[str, Any], seed: Any, settings: Any, before: Any) -> Any:
        """The next two in one program, in which gradients need no memory of their own."""
        tokens, stop, *_ = tf.unstack(settings)
        share = {name: array[0] for name, array in batch.items()}
        loss, gradients = self._sum_of_parts(share, seed, tf.constant(0), tokens)
        return self._clip_and_apply(loss, gradients, stop, settings, before)

    def _sum_of_parts(self, share: Mapping[str, Any], seed: Any, replica: Any, tokens: Any) -> tuple[Any, list[Any]]:
        """Loss and gradients of this replica's parts, added up."""
        share, seed = tf.nest.map_structure(lambda array: tf.cast(array, tf.int32), (share, seed))

        def part(i: Any) -> tuple[Any, list[Any]]:
            number = replica + i * self.split.devices
            return self._gradients_of({name: array[i] for name, array in share.items()}, seed, number, tokens)

        def body(i: Any, loss: Any, gradients: list[Any]) -> tuple[Any, Any, list[Any]]:
            more_loss, more = part(i)
            return i + 1, loss + more_loss, [a + b for a, b in zip(gradients, more, strict=True)]

        if self.split.accumulate == 1:
            return part(0)
        # Computing the first part outside the loop saves a pass over zeros. XLA would then compile everything twice.
        done = 0 if self._jit else 1
        sums = part(0) if done else (tf.zeros([]), [tf.zeros(v.shape, v.dtype) for v in self._optimizer.variables])
        # One iteration at a time: memory for one part, not for all of them.
        _, loss, gradients = tf.while_loop(
            lambda i, *_: i < self.split.accumulate, body, (tf.constant(done), *sums), parallel_iterations=1
        )
        return loss, gradients

    def _gradients_of(self, rows: Mapping[str, Any], seed: Any, part: Any, tokens: Any) -> tuple[Any, list[Any]]:
        """Loss and gradients of one part, both divided by the global number of target tokens.

        Args:
            seed: int32 [3], the step's.
            part: which of the global batch's parts this is.
        """
        loss_scale = self._optimizer.loss_scale
        return loss_and_gradients(
            self._model,
            rows,
            _part_seed(seed, part, rows),
            tokens,
            self._smoothing,
            groups=self.split.part_groups,
            shards=self._shards,
            jit=self._jit,
            scale=None if loss_scale is None else loss_scale.value(),
            r_drop=self._r_drop,
        )

    def _clip_and_apply(self, loss: Any, gradients: list[Any], stop: Any, settings: Any, before: Any) -> Any:
        """Updates this replica's weights unless a number is not finite; returns the outcome, a float32 `StepResult`."""
        _, _, strict, *numbers = tf.unstack(settings)
        norm = _norm_of_one_array(gradients) if self._jit else tf.linalg.global_norm(gradients)
        if self._clip_norm:
            gradients, _ = tf.clip_by_global_norm(gradients, self._clip_norm, use_norm=norm)
        wanted = (strict == 0) | (StepResult(*tf.unstack(before)).applied > 0)
        applied = tf.math.is_finite(loss) & tf.math.is_finite(norm) & wanted
        if self._jit:
            self._apply(gradients, numbers, applied)
        else:
            tf.cond(applied, lambda: self._apply(gradients, numbers), lambda: False)
        scale: list[Any] = []
        if (loss_scale := self._optimizer.loss_scale) is not None:
            lowered, *scale = loss_scale.update(tf.math.is_finite(norm), tf.math.is_finite(loss) & wanted)
            applied |= lowered
        return tf.stack([loss, norm, stop, tf.cast(applied, tf.float32), *scale])

    def _apply(self, gradients: list[Any], numbers: list[Any], condition: Any = None) -> bool:
        self._optimizer.apply(gradients, *numbers, condition=condition)
        if self._optimizer.ema is not None:
            self._optimizer.ema.update(condition)
        return True


def _norm_of_one_array(gradients: Sequence[Any]) -> Any:
    """The global norm, for XLA: two kernels a gradient would take a GPU longer than a copy of them all."""
    flat = tf.concat([tf.reshape(gradient, [-1]) for gradient in gradients], 0)
    return tf.sqrt(tf.reduce_sum(tf.square(flat)))


def _tokens(batch: Mapping[str, np.ndarray]) -> float:
    """By what losses are divided: the number of target tokens, or the sum of their weights; 1 if there are none."""
    if "weight" in batch:
        return float(batch["weight"].view(np.float32).sum(dtype=np.float64)) or 1.0
    return max(float(np.count_nonzero(batch["target"])), 1.0)


def _part_seed(seed: Any, part: Any, rows: Mapping[str, Any]) -> Any:
    """The seed of the first row of a part, all of which have as many rows."""
    return seed_of_row(seed, part * tf.shape(rows["target"])[0])
