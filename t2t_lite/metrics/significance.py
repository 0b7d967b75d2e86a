"""Significance of the difference between two outputs: the two paired tests of sacreBLEU.

The bootstrap (Koehn, EMNLP 2004) draws corpora with replacement; approximate randomisation (Riezler and Maxwell, 2005)
swaps lines of the two outputs; its p value is computed here.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sacrebleu.significance import PairedTest

from t2t_lite.errors import UsageError
from t2t_lite.metrics.metric import Metric
from t2t_lite.metrics.score import Score

RESAMPLES = 1000  # of the bootstrap; sacreBLEU's default
TRIALS = 10000  # of approximate randomisation; sacreBLEU's default
_BLOCK = 64  # trials at once; a multiple of 32, as NumPy draws so many booleans at once, and blocks change no draw
_ROUNDING = 1e-9  # of scores up to 100
_SEED = "SACREBLEU_SEED"  # sacreBLEU's own way to ask for another seed


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Two outputs under one metric.

    Attributes:
        score, baseline: of the translations, and of what they are compared with.
        p_value: how probable a difference at least as large is if the two are equally good; two-sided.
        interval, baseline_interval: 95% of the resampled corpora score between these; None without a bootstrap.
        resamples, seed: how many corpora were drawn (or trials made), and with which seed (None: without one).
        test: "paired bootstrap" or "paired approximate randomisation".
    """

    score: Score
    baseline: Score
    p_value: float
    interval: tuple[float, float] | None
    baseline_interval: tuple[float, float] | None
    resamples: int
    seed: int | None
    test: str

    @property
    def difference(self) -> float:
        """How much higher the translations score than the baseline."""
        return self.score.value - self.baseline.value

    def format_baseline(self, name: str = "") -> str:
        """Returns two lines: the score of the baseline, called `name`, and the difference."""
        intervals = ""
        if self.interval is not None and self.baseline_interval is not None:
            intervals = f"; 95% intervals: {_range(self.interval)}, baseline {_range(self.baseline_interval)}"
        draws = "resamples" if intervals else "trials"
        lower = ", lower is better" if self.score.name == "TER" else ""
        return (
            f"  baseline {f'{name} ' if name else ''}{self.baseline.value:.2f}{intervals}\n"
            f"  difference {self.difference:+.2f}{lower}, p = {self.p_value:.4f} "
            f"({self.test}, {self.resamples:,} {draws}, seed {self.seed or 'none'})"
        )

    def as_dict(self) -> dict[str, Any]:
        """Returns the attributes of the score, and everything else under "paired", JSON-ready."""
        paired: dict[str, Any] = dataclasses.asdict(self) | {"difference": self.difference}
        return {**paired.pop("score"), "paired": paired}


def paired_bootstrap(
    metric: Metric, hypotheses: Sequence[str], baseline: Sequence[str], *references: Sequence[str]
) -> Comparison:
    """Compares two outputs, line by line translations of the same text, by RESAMPLES corpora drawn from them.

    Needs about 75 kB of memory per line for chrF, 40 kB for BLEU.

    Raises:
        DataError: no lines, or unequal counts.
        UsageError: SACREBLEU_SEED is set to something that is not a seed.
    """
    return _compare("bs", RESAMPLES, metric, hypotheses, baseline, references)


def paired_randomisation(
    metric: Metric, hypotheses: Sequence[str], baseline: Sequence[str], *references: Sequence[str]
) -> Comparison:
    """Compares two outputs by TRIALS trials that swap lines at random; errors as in `paired_bootstrap`.

    Needs about 15 kB of memory per line for chrF, 4 kB for BLEU.
    """
    return _compare("ar", TRIALS, metric, hypotheses, baseline, references)


def random_seed() -> int | None:
    """Returns the seed of both tests, None for draws that differ each time; UsageError if SACREBLEU_SEED is neither."""
    seed = os.environ.get(_SEED, "12345")
    if seed.lower() == "none":
        return None
    if not seed.isdecimal() or int(seed) == 0:  # sacreBLEU takes 0 for no seed at all
        raise UsageError(
            f"{_SEED}={seed} is neither a whole number of at least 1 nor none, which draws differently each time; "
            "unset it for sacreBLEU's default, 12345."
        )
    return int(seed)


_TESTS = {"bs": "paired bootstrap", "ar": "paired approximate randomisation"}


def _compare(
    kind: str,
    draws: int,
    metric: Metric,
    hypotheses: Sequence[str],
    baseline: Sequence[str],
    references: Sequence[Sequence[str]],
) -> Comparison:
    seed = random_seed()
    score, baseline_score = metric.score(hypotheses, *references), metric.score(baseline, *references)
    ours, theirs = ([metric.hypothesis(line) for line in lines] for lines in (hypotheses, baseline))
    prepared = [[metric.reference(line) for line in lines] for lines in references]
    if kind == "ar":
        p_value = _by_trials(metric.counter, ours, theirs, prepared, seed)
        return Comparison(score, baseline_score, p_value, None, None, draws, seed, _TESTS[kind])
    systems: list[tuple[str, Sequence[str]]] = [("baseline", theirs), ("translations", ours)]
    _, columns = PairedTest(systems, {"score": metric.counter}, prepared, test_type=kind, n_samples=draws)()
    results: list[Any] = next(column for name, column in columns.items() if name != "System")
    old, new = results
    # If the scores are equal, sacreBLEU counts no resample that differs more, and so gives the least probability.
    p_value = new.p_value if score.value != baseline_score.value else 1.0
    return Comparison(score, baseline_score, p_value, _interval(new), _interval(old), draws, seed, _TESTS[kind])


def _by_trials(
    counter: Any, ours: Sequence[str], theirs: Sequence[str], references: Sequence[Sequence[str]], seed: int | None
) -> float:
    """Returns the share of TRIALS trials, made as sacreBLEU makes them, that differ at least as much as the outputs.

    sacreBLEU counts only those that differ more. A trial that swaps all or none of the lines that differ, which are
    half of the trials where two lines do, is no reason to think that the outputs differ.
    """
    counts = [np.asarray(counter._extract_corpus_statistics(lines, references)) for lines in (ours, theirs)]

    def scores(rows: Any) -> Any:
        return np.array([counter._aggregate_and_compute(row).score for row in rows[:, None]])

    def differences(swapped: Any) -> Any:
        first, second = (swapped @ a + ~swapped @ b for a, b in (counts, counts[::-1]))
        return np.abs(scores(first) - scores(second))

    least = differences(np.zeros((1, len(ours)), bool)) - _ROUNDING
    as_large = sum(int((differences(swapped) >= least).sum()) for swapped in _trials(len(ours), seed))
    return float((as_large + 1) / (TRIALS + 1))


def _trials(lines: int, seed: int | None) -> Iterator[Any]:
    """Yields blocks of TRIALS trials, whether each swaps each line: bool (trials of a block, lines)."""
    random = np.random.default_rng(seed)
    for first in range(0, TRIALS, _BLOCK):
        yield random.integers(2, size=(min(_BLOCK, TRIALS - first), lines), dtype=bool)


def _interval(result: Any) -> tuple[float, float]:
    return float(result.mean - result.ci), float(result.mean + result.ci)


def _range(interval: tuple[float, float]) -> str:
    return f"{interval[0]:.2f} to {interval[1]:.2f}"
