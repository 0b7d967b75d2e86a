"""Warm-up, stable, decay: learning_rate until the last decay_steps updates, then down (Hu et al., 2024)."""

from t2t_lite import registry
from t2t_lite.errors import UsageError
from t2t_lite.schedules.base import Schedule, check_floor, need


@registry.register_schedule("wsd")
class WarmupStableDecay(Schedule):
    """min + (peak - min) (1 - sqrt(t)), t rising from 0 at train_steps - decay_steps to 1 at train_steps.

    The three phases are those of "MiniCPM" (arXiv 2404.06395), equation (1). The form of the decay is the best one in
    "Scaling Laws and Compute-Optimal Training Beyond Fixed Training Durations" (Hägele et al., 2024, arXiv 2405.18392).
    """

    def __init__(
        self,
        learning_rate: float,
        warmup_steps: int,
        decay_steps: int,
        train_steps: int,
        min_learning_rate: float = 0.0,
    ) -> None:
        super().__init__()
        need("wsd", learning_rate=learning_rate, decay_steps=decay_steps)
        check_floor(learning_rate, min_learning_rate)
        if warmup_steps + decay_steps > train_steps:
            raise UsageError(
                f"hparams: schedule=wsd rises for warmup_steps={warmup_steps:,} updates and falls for decay_steps="
                f"{decay_steps:,}, which is more than train_steps={train_steps:,}. Give fewer of them, or more "
                "train_steps."
            )
        self._peak, self._floor = learning_rate, min_learning_rate
        self._warmup_steps, self._decay_steps = warmup_steps, decay_steps
        self._decays_after = train_steps - decay_steps

    def rate(self, step: int) -> float:
        if step <= self._decays_after:
            return self._peak * min(step / self._warmup_steps, 1.0)
        t = min((step - self._decays_after) / self._decay_steps, 1.0)
        return self._floor + (self._peak - self._floor) * (1 - t**0.5)
