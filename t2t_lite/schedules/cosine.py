"""Linear warm-up to learning_rate, then half a cosine down to min_learning_rate (Loshchilov and Hutter, 2017)."""

import math

from t2t_lite import registry
from t2t_lite.schedules.base import Schedule, check_floor, need


@registry.register_schedule
class Cosine(Schedule):
    """min + (peak - min) (1 + cos(pi t)) / 2, t rising from 0 at warmup_steps to 1 at train_steps.

    "SGDR: Stochastic Gradient Descent with Warm Restarts" (arXiv 1608.03983), equation (5), with one cycle. The linear
    warm-up is not in it.
    """

    def __init__(
        self, learning_rate: float, warmup_steps: int, train_steps: int, min_learning_rate: float = 0.0
    ) -> None:
        super().__init__()
        need("cosine", learning_rate=learning_rate)
        check_floor(learning_rate, min_learning_rate)
        self._peak, self._floor = learning_rate, min_learning_rate
        self._warmup_steps, self._train_steps = warmup_steps, train_steps

    def rate(self, step: int) -> float:
        if step <= self._warmup_steps:
            return self._peak * step / self._warmup_steps
        t = min((step - self._warmup_steps) / max(self._train_steps - self._warmup_steps, 1), 1.0)
        return self._floor + (self._peak - self._floor) * (1 + math.cos(math.pi * t)) / 2
