"""Plain stochastic gradient descent."""

from collections.abc import Mapping
from typing import Any

from t2t_lite import registry
from t2t_lite.optimizers.base import Optimizer


@registry.register_optimizer
class SGD(Optimizer):
    """variable -= rate * gradient; nothing is remembered."""

    def update(self, weight: Any, slots: Mapping[str, Any], gradient: Any, *numbers: Any) -> tuple[Any, dict[str, Any]]:
        (rate,) = numbers
        return weight - rate * gradient, dict(slots)
