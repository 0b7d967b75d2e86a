"""The learning rate (section 5.3, equation (3))."""

from __future__ import annotations


def learning_rate(step: int, d_model: int, warmup_steps: int, factor: float = 1.0) -> float:
    """factor * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5).

    Args:
        step: number of the update, from 1.
        factor: 1 in the paper.
    """
    return float(factor * d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5))
