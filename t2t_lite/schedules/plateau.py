"""learning_rate, halved each time that `patience` evaluations in a row bring no lower loss on dev."""

import math

from t2t_lite import registry
from t2t_lite.schedules.base import Schedule, need


@registry.register_schedule
class Plateau(Schedule):
    """learning_rate / 2^halvings.

    The loss is that of all of dev, and does not depend on how dev is decoded. There is no warm-up.
    """

    needs_evaluations = True

    def __init__(self, learning_rate: float, patience: int) -> None:
        super().__init__()
        need("plateau", learning_rate=learning_rate)
        self._rate, self._patience = learning_rate, patience
        self.memory = {"best": math.inf, "since": 0, "halvings": 0}

    def rate(self, step: int) -> float:
        del step
        return self._rate * 0.5 ** self.memory["halvings"]

    def forget_losses(self) -> None:
        """The rate stays as often halved as it was."""
        self.memory |= {"best": math.inf, "since": 0}

    def on_evaluation(self, loss: float) -> str | None:
        """Notes whether the loss is the lowest so far; halves the rate after `patience` others in a row."""
        memory = self.memory
        if loss < memory["best"]:
            memory |= {"best": loss, "since": 0}
            return None
        memory["since"] += 1
        if memory["since"] < self._patience:
            return None
        memory |= {"since": 0, "halvings": memory["halvings"] + 1}
        return (
            f"{self._patience} evaluations in a row brought no loss on dev below {memory['best']:.4f}: the learning "
            f"rate is {self.rate(0):.4g} from here on."
        )
