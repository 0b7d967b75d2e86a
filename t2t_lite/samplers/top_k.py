"""The top_k most likely symbols alone (Fan et al., 2018); Edunov et al. (2018) back-translate with 10."""

import math
from typing import Any

from t2t_lite import registry
from t2t_lite.ops.top_k import top_k as largest
from t2t_lite.samplers.base import Sampler, check, keep_only


@registry.register_sampler
class TopK(Sampler):
    """softmax(logits / temperature) over the k most likely symbols; 1 is greedy search.

    Args:
        top_k: k; among equally likely symbols the one with the smaller id comes first.
    """

    def __init__(self, top_k: int = 10, temperature: float = 1.0) -> None:
        super().__init__(temperature)
        check("top_k", top_k, 1 <= top_k < math.inf and top_k == int(top_k), "a whole number of at least 1")
        self.top_k = int(top_k)

    def restrict(self, logits: Any) -> Any:
        """The k largest."""
        values, symbols = largest(logits, min(self.top_k, logits.shape[-1]))
        return keep_only(symbols, values, logits)
