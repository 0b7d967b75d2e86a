"""The fewest symbols whose probabilities add up to at least top_p (nucleus sampling; Holtzman et al., 2020)."""

from typing import Any

import tensorflow as tf

from t2t_lite import registry
from t2t_lite.samplers.base import Sampler, check, keep_only


@registry.register_sampler
class Nucleus(Sampler):
    """softmax(logits / temperature) over the most likely symbols whose probabilities add up to at least p.

    Args:
        top_p: p; the temperature is applied first, and changes which symbols these are.
    """

    def __init__(self, top_p: float = 0.9, temperature: float = 1.0) -> None:
        super().__init__(temperature)
        check("top_p", top_p, 0 < top_p <= 1, "above 0 and at most 1")
        self.top_p = top_p

    def restrict(self, logits: Any) -> Any:
        """Keeps each symbol if the more likely ones before it add up to less than p."""
        values, symbols = tf.math.top_k(logits, logits.shape[-1])
        probabilities = tf.cast(tf.nn.softmax(values), tf.float64)
        before = tf.cumsum(probabilities, axis=-1, exclusive=True) / tf.reduce_sum(probabilities, -1, keepdims=True)
        return keep_only(symbols, tf.where(before < self.top_p, values, -float("inf")), logits)
