"""State of a training in checkpoints, beside the weights: slots, loss scale, moving average, a schedule's memory."""

from collections.abc import Collection, Sequence

import tensorflow as tf

from t2t_lite.errors import DataError, UsageError
from t2t_lite.optimizers.base import Optimizer
from t2t_lite.schedules.base import Schedule

_MEMORY = "schedule_memory"
_LAST = "last_evaluation"
_LOSS_SCALE = "loss_scale"
_EMA, _EMA_UPDATES = "ema", "ema_updates"


class SavedState:
    """The variables of a run in a checkpoint, and their transfer to and from optimizer and schedule.

    For an optimizer called "adam" with slots "m" and "v" these are the parts adam_m and adam_v, by the weights' names,
    and adam_start, the step at which they were last zero. For a schedule with a memory: schedule_memory. In float16:
    loss_scale. With a moving average: ema, by the weights' names, and ema_updates.

    Attributes:
        parts: variables by part and name.
        may_lack: parts that a checkpoint may lack: with --reset_optimizer the schedule may be new to the run, and with
            --with_optimizer the loss scale or the average.
    """

    may_lack = (_MEMORY, _LOSS_SCALE, _EMA, _EMA_UPDATES)

    def __init__(self, names: Sequence[str], optimizer: Optimizer | None, schedule: Schedule | None) -> None:
        self.parts: dict[str, dict[str, tf.Variable]] = {}
        self._optimizer, self._schedule = optimizer, schedule
        if optimizer is not None:
            for name, slots in zip(names, optimizer.slots, strict=True):
                for slot, variable in slots.items():
                    self.parts.setdefault(f"{optimizer.name}_{slot}", {})[name] = variable
            self._start = tf.Variable(0, dtype=tf.int64, trainable=False)
            self.parts[f"{optimizer.name}_start"] = {"step": self._start}
            if optimizer.loss_scale is not None:
                self.parts[_LOSS_SCALE] = optimizer.loss_scale.variables
            if optimizer.ema is not None:
                self.parts[_EMA] = dict(zip(names, optimizer.ema.averages, strict=True))
                self.parts[_EMA_UPDATES] = {"number": optimizer.ema.updates}
        self._memory: dict[str, tf.Variable] = {}
        if schedule is not None and schedule.needs_evaluations:
            self._fresh: dict[str, float] = {**schedule.memory, _LAST: schedule.last_evaluation}
            self._memory = {n: tf.Variable(v, dtype=tf.float64, trainable=False) for n, v in self._fresh.items()}
            self.parts[_MEMORY] = self._memory

    def gather(self) -> None:
        """Updates the variables before a save; UsageError if a schedule's memory has a name that is new."""
        if self._optimizer is not None:
            self._start.assign(self._optimizer.start)
        if self._schedule is not None and self._memory:
            for name, value in {**self._schedule.memory, _LAST: self._schedule.last_evaluation}.items():
                if name not in self._memory:
                    raise UsageError(
                        f"The schedule {type(self._schedule).__qualname__} has {name!r} in its memory, which it had "
                        "not when the training began, so checkpoints have no place for it. Set it in the constructor."
                    )
                self._memory[name].assign(value)

    def clear(self) -> None:
        """Before a read, sets to its default what a checkpoint may lack."""
        for name, variable in self._memory.items():
            variable.assign(-1 if name == _LAST else self._fresh[name])
        if self._optimizer is not None and self._optimizer.loss_scale is not None:
            self._optimizer.loss_scale.reset()
        if _EMA_UPDATES in self.parts:
            self.parts[_EMA_UPDATES]["number"].assign(0.0)

    def restore(self, step: int) -> None:
        """Passes what the checkpoint of `step` held to optimizer and schedule."""
        if self._optimizer is not None:
            self._optimizer.start = int(self._start.numpy())
        if self._schedule is not None and self._memory:
            memory = {name: float(variable.numpy()) for name, variable in self._memory.items()}
            last = int(memory.pop(_LAST))
            self._schedule.memory |= memory
            self._schedule.last_evaluation = step if last < 0 else last  # a new schedule begins here

    def averages(self) -> dict[str, tf.Variable]:
        """Returns the moving average of each weight by name; of none if there is no average, or no update yet."""
        begun = _EMA in self.parts and float(self.parts[_EMA_UPDATES]["number"].numpy()) > 0
        return self.parts[_EMA] if begun else {}

    def check_parts(self, wanted: Collection[str], there: Collection[str], path: str) -> None:
        """Raises DataError if a whole part is `wanted` and not `there`, as with another optimizer."""
        lacking = [part for part in wanted if part in self.parts and part not in (*there, *self.may_lack)]
        if lacking:
            raise DataError(
                f"The checkpoint {path} is none that {lacking[0].rpartition('_')[0]} can resume from: it has no "
                f"{', '.join(lacking)}. Give the optimizer that it was trained with, or take its weights into a new "
                f"run: --warm_start_from={path}."
            )
