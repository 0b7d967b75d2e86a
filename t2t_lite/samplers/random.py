"""All symbols, as likely as the model says: unrestricted sampling, which Edunov et al. (2018) back-translate with."""

from typing import Any

from t2t_lite import registry
from t2t_lite.samplers.base import Sampler


@registry.register_sampler
class Random(Sampler):
    """softmax(logits / temperature)."""

    def restrict(self, logits: Any) -> Any:
        """The logits themselves."""
        return logits
