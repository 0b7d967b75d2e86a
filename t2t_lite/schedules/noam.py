"""Equation (3) of the paper: linear warm-up, then decay by the root of the step (section 5.3)."""

from t2t_lite import registry
from t2t_lite.schedules.base import Schedule


@registry.register_schedule
class Noam(Schedule):
    """learning_rate_factor * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5).

    Args:
        d_model: the width of what the model's softmax layer is given. That is the recipe's d_model but for three cases:
            twice as much for `bytenet` with wiring=paper, and for `rnn` with wiring=vinyals or with encoder=bi and
            wiring=gnmt or gnmt_v2; d_out for `convs2s`.
        learning_rate_factor: 1 in the paper.
    """

    def __init__(self, d_model: int, warmup_steps: int, learning_rate_factor: float = 1.0) -> None:
        super().__init__()
        self._d_model, self._warmup_steps, self._factor = d_model, warmup_steps, learning_rate_factor

    def rate(self, step: int) -> float:
        return float(self._factor * self._d_model**-0.5 * min(step**-0.5, step * self._warmup_steps**-1.5))
