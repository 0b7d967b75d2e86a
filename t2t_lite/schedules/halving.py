"""learning_rate for halve_after updates, then half of it, and half again every halve_every (Luong et al., 2015)."""

from t2t_lite import registry
from t2t_lite.schedules.base import Schedule, need


@registry.register_schedule
class Halving(Schedule):
    """learning_rate / 2^n, n being 0 up to update halve_after, 1 for the next halve_every updates, and so on.

    Luong et al. halve "every epoch after 5 epochs": halve_after=5E, halve_every=E, where an epoch has E updates. There
    is no warm-up.
    """

    def __init__(self, learning_rate: float, halve_after: int, halve_every: int) -> None:
        super().__init__()
        need("halving", learning_rate=learning_rate, halve_after=halve_after, halve_every=halve_every)
        self._rate, self._after, self._every = learning_rate, halve_after, halve_every

    def rate(self, step: int) -> float:
        halvings = 0 if step <= self._after else 1 + (step - 1 - self._after) // self._every
        return self._rate * 0.5**halvings
