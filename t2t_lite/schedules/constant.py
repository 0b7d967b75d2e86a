"""Constant learning_rate after a linear warm-up; warmup_steps=1 has no warm-up."""

from t2t_lite import registry
from t2t_lite.schedules.base import Schedule, need


@registry.register_schedule
class Constant(Schedule):
    """learning_rate * min(step / warmup_steps, 1)."""

    def __init__(self, learning_rate: float, warmup_steps: int) -> None:
        super().__init__()
        need("constant", learning_rate=learning_rate)
        self._rate, self._warmup_steps = learning_rate, warmup_steps

    def rate(self, step: int) -> float:
        return self._rate * min(step / self._warmup_steps, 1.0)
