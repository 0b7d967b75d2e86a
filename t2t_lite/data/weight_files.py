"""Weights of training pairs: files beside the text with a number on each line, and their place in the store."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from t2t_lite.data.sources import read_lines
from t2t_lite.errors import DataError
from t2t_lite.problem import LARGEST_WEIGHT, WeightedPair


def weigh_pairs(pairs: Iterable[tuple[str, str]], path: Path) -> Iterator[WeightedPair]:
    """Yields the pairs with the weights in the lines of a file.

    Raises:
        DataError: the file has more or fewer lines than there are pairs, or a line is no number from 0 to a million.
    """
    for number, (pair, line) in enumerate(itertools.zip_longest(pairs, read_lines(path)), start=1):
        if pair is None or line is None:
            more, fewer = ("lines", "pairs") if pair is None else ("pairs", "lines")
            raise DataError(f"{path} does not fit its text: there are more {more} than the {number - 1:,} {fewer}.")
        try:
            weight = float(line)
        except ValueError:
            weight = math.nan
        if not 0 <= weight <= LARGEST_WEIGHT:
            raise DataError(
                f"{path}, line {number:,}: {line[:40]!r} is no weight, which is a number from 0 to "
                f"{LARGEST_WEIGHT:,.0f}, such as 0.5."
            )
        yield WeightedPair(pair[0], pair[1], weight)


def keep_weights(pairs: Iterable[tuple[str, str]], write: Callable[[bytes], None]) -> Iterator[tuple[str, str]]:
    """Yields the pairs, whose weights are written as little-endian float32; DataError if the weights are all 0."""
    total = 0.0
    for pair in pairs:
        if isinstance(pair, WeightedPair):
            total += pair.weight
            write(np.array(pair.weight, "<f4").tobytes())
        yield pair
    if not total:
        raise DataError("The weights of all training pairs are 0, so that nothing would be learned.")
