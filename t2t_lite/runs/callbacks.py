"""Callbacks of a training run: Keras' own classes, and functions."""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras

from t2t_lite import registry
from t2t_lite.errors import TrainingError, UsageError
from t2t_lite.signals import StopSignals

DEV_LOSS, VAL_LOSS = "dev_loss", "val_loss"  # in metrics.jsonl; what Keras' callbacks look for

_AT_THE_START, _AT_THE_END = "on_train_begin", "on_train_end"


class Callbacks:
    """Tells callbacks of a run's progress, and ends the run where one of them fails or asks for it.

    A callback sees copies: of the numbers, and as `self.model` of the model, with the weights of the newest evaluation
    (before the first one, those at the start). So it cannot change the run.

    Each gets, as in Keras: on_train_begin; on_train_batch_end(step, logs) at each line of metrics.jsonl;
    on_epoch_end(number, logs) after each evaluation, numbered from 0 in this process; on_train_end. `self.params` has
    "epochs" (evaluations to come), "steps" (updates) and what `params` adds. `self.model.stop_training = True` ends the
    run after the step at hand, as Ctrl-C does. A function is called with (step, logs) at both kinds of lines.

    Args:
        callbacks: keras.callbacks.Callback or functions; none of them: nothing is copied.
        model: the run's.
        optimizer: a description: its name and settings.
        params: of the run, for the callbacks.
        stop: is told when the run is to end.
    """

    def __init__(
        self,
        callbacks: Sequence[Any],
        model: Any,
        optimizer: Mapping[str, Any],
        params: Mapping[str, Any],
        stop: StopSignals,
    ) -> None:
        self._all = [_from_function(each) for each in callbacks]
        self._model, self._stop = model, stop
        self._failed: tuple[str, Exception] | None = None
        self._evaluations, self._losses = 0, dict[str, float]()
        if not self._all:
            return
        self._copy = type(model).from_config(model.get_config())
        self._copy.set_weights(model.get_weights())
        self._copy.stop_training = False
        self._copy.optimizer = self._optimizer = _Optimizer(optimizer)
        self._params = params

    def begin(self) -> None:
        """Before the first update."""
        for callback in self._all:
            self._call(callback, "set_params", copy.deepcopy(self._params))
            self._call(callback, "set_model", self._copy)
        self._tell(_AT_THE_START, {})

    def report(self, values: Mapping[str, float]) -> None:
        """After a training line of metrics.jsonl."""
        if self._all:
            logs = dict(values)
            step = int(logs.pop("step"))
            self._losses = {"loss": logs["loss"]}
            self._optimizer.set(step, logs["learning_rate"])
            self._tell("on_train_batch_end", step, logs)

    def evaluated(self, step: int, scores: Mapping[str, float]) -> None:
        """After an evaluation line of metrics.jsonl."""
        if self._all:
            self._copy.set_weights(self._model.get_weights())
            self._optimizer.set(step)
            also = {VAL_LOSS: scores[DEV_LOSS]} if DEV_LOSS in scores else {}
            self._tell("on_epoch_end", self._evaluations, {"step": step, **self._losses, **scores, **also})
            self._evaluations += 1

    def end(self, *, stopped: bool = False) -> TrainingError | None:
        """After the last update, or, if `stopped`, the one before a stop or an error.

        Returns:
            The error of a callback that failed in on_train_end, for the end of the command.

        Raises:
            TrainingError: a callback failed before, or the run was stopped.
        """
        early = stopped or self._failed is not None
        self._tell(_AT_THE_END, {})
        if self._failed is None:
            return None
        name, error = self._failed
        state = (
            "The run was ended, and what it has trained is saved; the same command resumes it."
            if early
            else "The run is complete: its weights and scores are saved."
        )
        raised = TrainingError(f"The callback {name} raised {type(error).__name__}: {error}. {state}")
        raised.__cause__ = error
        if early:
            raise raised
        return raised

    def _tell(self, method: str, *arguments: Any) -> None:
        """Calls each; if one has failed, only at start and end: the others may have something to close."""
        *before, logs = arguments
        for callback in self._all:
            if self._failed is None or method in (_AT_THE_START, _AT_THE_END):
                self._call(callback, method, *before, dict(logs))

    def _call(self, callback: keras.callbacks.Callback, method: str, *arguments: Any) -> None:
        name = f"{type(callback).__name__}.{method}"
        try:
            getattr(callback, method)(*arguments)
        except Exception as error:  # of any kind: it is a stranger's code
            self._failed = self._failed or (name, error)
            if method != _AT_THE_END:
                self._stop.ask(f"{name} raised {type(error).__name__}")
        else:
            if self._copy.stop_training and method != _AT_THE_END:
                self._stop.ask(f"{name} set stop_training")


class _Optimizer:
    """What Keras' callbacks read of `model.optimizer`."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = dict(config)
        self.set(0, 0.0)

    def set(self, step: int, learning_rate: float | None = None) -> None:
        """The updates so far, and the rate of the last one; None: as before."""
        self.iterations = keras.ops.convert_to_tensor(step, "int64")
        if learning_rate is not None:
            self.learning_rate = keras.ops.convert_to_tensor(learning_rate, "float32")

    def get_config(self) -> dict[str, Any]:
        """Its name and settings."""
        return dict(self._config)


class _Function(keras.callbacks.Callback):
    def __init__(self, function: Callable[[int, dict[str, float]], object]) -> None:
        super().__init__()
        self._function = function

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._function(batch, logs)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._function(int(logs.pop("step")), logs)


def _from_function(callback: Any) -> keras.callbacks.Callback:
    if isinstance(callback, keras.callbacks.Callback):
        return callback
    named = type(getattr(callback, "__name__", type(callback).__name__), (_Function,), {})
    made: keras.callbacks.Callback = named(callback)
    return made


def make_callbacks(callbacks: Sequence[Any]) -> list[Any]:
    """Returns the callbacks, made by name where a name is given.

    Raises:
        UsageError: an unknown name, a package that it needs is missing, or an object that is no callback.
    """
    made = []
    for each in callbacks:
        if isinstance(each, str):
            each = registry.CALLBACKS.get(each)()
        if isinstance(each, type) or not (isinstance(each, keras.callbacks.Callback) or callable(each)):
            raise UsageError(
                f"callbacks has {each!r}. Give registered names, objects of keras.callbacks.Callback, or functions of "
                "(step, logs)."
            )
        made.append(each)
    return made
