"""Which training pairs are in which languages, and how often an epoch has each: sampling by temperature.

With n_i pairs in languages i, a pair is drawn from i with p_i ~ n_i^(1 / T) (Arivazhagan et al., 2019,
arXiv:1907.05019, section 4.2). Here nothing is drawn: an epoch has each pair of the largest languages once, and each
pair of others (n_max / n_i)^(1 - 1 / T) times, so that the shares of an epoch's pairs are p_i. Of a fraction, evenly
spaced pairs are taken once more, the same in each epoch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from t2t_lite.errors import UsageError

Run = tuple[str, str, int]  # source and target language, and how many pairs in a row


class LanguageRuns:
    """The languages of pairs that are added in their order."""

    def __init__(self) -> None:
        self._runs: list[Run] = []

    def add(self, languages: tuple[str, str], count: int = 1) -> None:
        """Adds pairs in these languages."""
        if self._runs and self._runs[-1][:2] == languages:
            count += self._runs.pop()[2]
        self._runs.append((*languages, count))

    def facts(self) -> dict[str, list[Run]]:
        """What the manifest says; nothing if all pairs are in the same languages."""
        return {"languages": self._runs} if len({run[:2] for run in self._runs}) > 1 else {}


def check_languages(several: bool, temperature: float) -> None:
    """Raises UsageError if a temperature is given, and training pairs are not in several languages."""
    if temperature != 1 and not several:
        raise UsageError(
            f"hparams: sampling_temperature={temperature:g} is for data with several pairs of languages, such as "
            "--languages=en-de,en-fr, and these have one. Leave it out."
        )


def repetitions(runs: Sequence[Run] | None, temperature: float) -> np.ndarray:
    """Returns how often an epoch has each pair, int64 [n]; raises as `check_languages`.

    Args:
        runs: from the manifest; None: all pairs are in the same languages.
        temperature: T, at least 1; 1: each once.
    """
    check_languages(bool(runs), temperature)
    runs = runs or ()
    numbers: Counter[tuple[str, str]] = Counter()
    for source, target, count in runs:
        numbers[source, target] += count
    largest, before = max(numbers.values()), dict.fromkeys(numbers, 0)
    found = []
    for source, target, count in runs:
        rate = round((largest / numbers[source, target]) ** (1 - 1 / temperature), 9)  # the same on any machine
        first = before[source, target]
        found.append(np.diff(np.floor(rate * np.arange(first, first + count + 1))).astype(np.int64))
        before[source, target] += count
    return np.concatenate(found)
