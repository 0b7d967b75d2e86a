"""Constraint of a search: which symbols a hypothesis may have next, by those that it has so far.

Legend: B sentences, K hypotheses of a sentence, V vocabulary.
"""

from __future__ import annotations

import abc
from typing import Any


class Constraint(abc.ABC):
    """What a search asks at each step; it knows nothing else about the outputs.

    A state is a dict of tensors [B, K, ...]. The search keeps it with its hypotheses.
    """

    @abc.abstractmethod
    def initial(self, batch: Any, beam_size: int, longest: Any) -> dict[str, Any]:
        """Returns the state of empty hypotheses of `batch` sentences, which get at most `longest` symbols."""

    @abc.abstractmethod
    def allowed(self, state: dict[str, Any], remaining: Any) -> Any:
        """Returns bool [B, K, V], for each hypothesis at least one; `remaining` int32 [B] symbols may still follow."""

    @abc.abstractmethod
    def advance(self, state: dict[str, Any], symbols: Any) -> dict[str, Any]:
        """Returns the state after another symbol, int32 [B, K]; PAD changes nothing."""
