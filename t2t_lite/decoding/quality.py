"""Quality estimates of outputs from the model's own probabilities, without a reference (Fomicheva et al., 2020)."""

from __future__ import annotations

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class QualityEstimate:
    """How sure the model is of an output; section 3.1 of the paper has both as TP and Softmax-Ent.

    mean_log_prob: of the output's pieces, end symbol included, each after those before it; natural logarithms.
    mean_entropy: of the model's distributions at these pieces, in nats: from 0 to log(vocabulary size).
    """

    mean_log_prob: float
    mean_entropy: float

    @classmethod
    def of(cls, log_probs: np.ndarray, entropies: np.ndarray) -> QualityEstimate | None:
        """Returns the estimate from the values of each piece, [T]; None for an output without pieces."""
        return cls(float(log_probs.mean()), float(entropies.mean())) if len(log_probs) else None

    def as_dict(self) -> dict[str, float]:
        """Returns what JSON holds, with six digits after the point."""
        return {name: round(value, 6) for name, value in vars(self).items()}
