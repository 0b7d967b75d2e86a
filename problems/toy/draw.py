"""Random choices, the same ones for the same seed on every machine."""

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """A source of random choices; `random()` is the one method whose values Python promises never to change."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed).random

    def chance(self, probability: float) -> bool:
        return self._random() < probability

    def pick(self, options: Sequence[T]) -> T:
        return options[int(self._random() * len(options))]
