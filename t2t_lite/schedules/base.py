"""Base class of schedules: the learning rate by step and, where it needs them, by evaluations on dev."""

import abc
import math

from t2t_lite.errors import UsageError


class Schedule(abc.ABC):
    """The learning rate of each update.

    A subclass defines `rate`. Its constructor takes fields of HParams by name: those are the settings that it reads.
    None of them may change when a run is resumed; d_model is the model's. It is registered with
    `registry.register_schedule`.

    Attributes:
        needs_evaluations: whether `on_evaluation` is called after evaluations. Rates then depend on when evaluations
            happen, so eval_every must stay the same when a run resumes.
        memory: numbers that checkpoints hold; the rate may depend on them, and on nothing else that changes. The
            constructor sets all of them, since their names may not change later.
        last_evaluation: the step of the last evaluation that `on_evaluation` was called for; also in checkpoints.
    """

    needs_evaluations = False

    def __init__(self) -> None:
        self.memory: dict[str, float] = {}
        self.last_evaluation = 0

    @abc.abstractmethod
    def rate(self, step: int) -> float:
        """The learning rate of update number `step`, from 1."""

    def on_evaluation(self, loss: float) -> str | None:
        """Is called for each evaluation at a multiple of eval_every, once and in order.

        Args:
            loss: the loss on dev.

        Returns:
            A sentence for the user on what changes, or None if nothing does.
        """
        raise NotImplementedError

    def forget_losses(self) -> None:  # noqa: B027 - most schedules remember none
        """Is called where training resumes with other data, whose losses do not compare with those so far."""

    def __call__(self, step: int) -> float:
        """Returns `rate`; raises UsageError if that is negative or not finite."""
        rate = float(self.rate(step))
        if not 0 <= rate < math.inf:
            raise UsageError(
                f"The schedule {type(self).__qualname__} gives a learning rate of {rate:g} for step {step:,}; it must "
                "be finite and at least 0."
            )
        return rate


def need(schedule: str, **fields: float) -> None:
    """Raises UsageError, naming those of `fields` that are 0, which means that they were not given."""
    if missing := [name for name, value in fields.items() if not value]:
        values = ",".join(f"{name}=VALUE" for name in missing)
        names = " and ".join(missing)
        raise UsageError(f"hparams: schedule={schedule} needs {names}, without a default; add {values}.")


def check_floor(learning_rate: float, min_learning_rate: float) -> None:
    """Raises UsageError if a rate that is to fall would rise."""
    if min_learning_rate > learning_rate:
        raise UsageError(
            f"hparams: min_learning_rate={min_learning_rate:g}, to which the learning rate falls, is above "
            f"learning_rate={learning_rate:g}. Give a lower one."
        )
