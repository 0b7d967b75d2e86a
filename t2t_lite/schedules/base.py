"""Base class of schedules: the learning rate by step, and by evaluations on dev if it listens to them."""

from __future__ import annotations

import abc
import math

from t2t_lite.errors import UsageError


class Schedule(abc.ABC):
    """The learning rate of each update.

    A subclass defines `rate`. Its constructor takes fields of HParams by name: those are the settings that it reads;
    d_model is the model's. It is registered with `registry.register_schedule`.

    Attributes:
        listens: whether `evaluated` is called after evaluations. Rates then depend on when evaluations happen, so
            eval_every must stay the same when a run goes on.
        memory: numbers that checkpoints hold; the rate may depend on them, and on nothing else that changes. The
            constructor sets all of them, since their names may not change later.
        heard: the step of the last evaluation that `evaluated` was called for; also in checkpoints.
    """

    listens = False

    def __init__(self) -> None:
        self.memory: dict[str, float] = {}
        self.heard = 0

    @abc.abstractmethod
    def rate(self, step: int) -> float:
        """The learning rate of update number `step`, from 1."""

    def evaluated(self, loss: float) -> str | None:
        """Is called for each evaluation at a multiple of eval_every, once and in order.

        Args:
            loss: the loss on dev.

        Returns:
            A sentence for the user on what changes, or None if nothing does.
        """
        raise NotImplementedError

    def forget_losses(self) -> None:  # noqa: B027 - most schedules remember none
        """Is called where a training goes on with other data, whose losses do not compare with those so far."""

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
    """Raises UsageError, naming the first of `fields` that is 0, which means that it was not given."""
    for name, value in fields.items():
        if not value:
            raise UsageError(f"hparams: schedule={schedule} needs {name}, which has no default; add {name}=VALUE.")
