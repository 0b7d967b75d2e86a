"""Linear warm-up to learning_rate, then decay by the root of the step: fairseq's inverse_sqrt."""

from t2t_lite import registry
from t2t_lite.schedules.base import Schedule, need


@registry.register_schedule
class InverseSqrt(Schedule):
    """learning_rate * min(step / warmup_steps, (warmup_steps / step)^0.5): equation (3), given by its peak."""

    def __init__(self, learning_rate: float, warmup_steps: int) -> None:
        super().__init__()
        need("inverse_sqrt", learning_rate=learning_rate)
        self._peak, self._warmup_steps = learning_rate, warmup_steps

    def rate(self, step: int) -> float:
        return self._peak * min(step / self._warmup_steps, (self._warmup_steps / step) ** 0.5)
