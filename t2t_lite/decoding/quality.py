"""Quality estimates of outputs from the model's own probabilities, without a reference (Fomicheva et al., 2020)."""

from __future__ import annotations

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class QualityEstimate:
    """How sure the model is of an output; section 3.1 of the paper has both as TP and Softmax-Ent.

    mean_log_prob: of the output's pieces, end symbol included, each after those before it; natural logarithms.
    mean_entropy: of the model's distributions at these pieces, in nats: from 0 to log(vocabulary size).
    dropout_mean, dropout_variance: of mean_log_prob over passes with dropout (section 3.2: D-TP and D-Var, with the
        number of passes as the divisor); None without such passes.
    """

    mean_log_prob: float
    mean_entropy: float
    dropout_mean: float | None = None
    dropout_variance: float | None = None

    @classmethod
    def of(
        cls, log_probs: np.ndarray, entropies: np.ndarray, *, passes: np.ndarray | None = None
    ) -> QualityEstimate | None:
        """Returns the estimate from the values of each piece, [T]; None for an output without pieces.

        Args:
            passes: mean log-probabilities with dropout, [N]; None: there were no such passes.
        """
        if not len(log_probs):
            return None
        of_passes = () if passes is None else (float(passes.mean()), float(passes.astype(np.float64).var()))
        return cls(float(log_probs.mean()), float(entropies.mean()), *of_passes)

    def as_dict(self) -> dict[str, float]:
        """Returns what JSON holds: numbers with six digits after the point, or a variance with six of its own."""
        found = {name: value for name, value in vars(self).items() if value is not None}
        return {name: float(f"{v:.6g}") if name == "dropout_variance" else round(v, 6) for name, v in found.items()}
