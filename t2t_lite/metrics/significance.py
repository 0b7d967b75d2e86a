"""Significance of the difference between two outputs by any metric: the two paired tests of sacreBLEU.

The bootstrap (Koehn, EMNLP 2004) draws corpora with replacement; approximate randomisation (Riezler and Maxwell, 2005)
swaps lines of the two outputs. A corpus is scored from the sums of its lines' counts, or as the mean of their scores.
"""

import dataclasses
import math
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from sacrebleu.significance import estimate_ci

from t2t_lite.errors import UsageError
from t2t_lite.metrics.score import CorpusMetric, Score

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
            both = ("{:.2f} to {:.2f}".format(*interval) for interval in (self.interval, self.baseline_interval))
            intervals = f"; 95% intervals: {', baseline '.join(both)}"
        draws = "resamples" if intervals else "trials"
        lower = ", lower is better" if self.score.name == "TER" else ""
        return (
            f"  baseline {f'{name} ' if name else ''}{self.baseline.value:.2f}{intervals}\n"
            f"  difference {self.difference:+.2f}{lower}, p = {self.p_value:.4f} "
            f"({self.test}, {self.resamples:,} {draws}, seed {self.seed or 'none'})"
        )

    def as_dict(self) -> dict[str, Any]:
        """Returns the attributes of the score, and everything else under "paired", JSON-ready."""
        paired = {**vars(self), "baseline": self.baseline.as_dict(), "difference": self.difference}
        del paired["score"]
        return {**self.score.as_dict(), "paired": paired}


def paired_bootstrap(metric: CorpusMetric, score: Score, baseline: Score) -> Comparison:
    """Compares two scores of a metric, of translations of the same text, by RESAMPLES corpora drawn from their lines.

    Raises:
        UsageError: the scores do not say how the value follows from the lines, or SACREBLEU_SEED is no seed.
    """
    seed = random_seed()
    ours, theirs = (_counts(metric, each) for each in (score, baseline))
    # As sacreBLEU: in float32, all draws at once.
    draws = np.random.default_rng(seed).choice(len(ours), size=(RESAMPLES, len(ours)), replace=True)
    values, baseline_values = (
        np.array([metric.from_counts(counts[ids].sum(0)) for ids in draws])
        for counts in (ours.astype("float32"), theirs.astype("float32"))
    )
    differences = np.abs(values - baseline_values)
    as_large = int((differences - differences.mean() > abs(score.value - baseline.value)).sum())
    # Where the scores are equal, no resample differs more from the mean difference.
    p_value = (as_large + 1) / (RESAMPLES + 1) if score.value != baseline.value else 1.0
    intervals = _interval(values), _interval(baseline_values)
    return Comparison(score, baseline, p_value, *intervals, RESAMPLES, seed, "paired bootstrap")


def paired_randomisation(metric: CorpusMetric, score: Score, baseline: Score) -> Comparison:
    """Compares two scores by TRIALS trials that swap lines at random; arguments and errors as in `paired_bootstrap`.

    The trials are sacreBLEU's, but those that differ at least as much as the outputs count, and sacreBLEU counts only
    those that differ more. A trial that swaps all or none of the lines that differ, which are half of the trials where
    two lines do, is no reason to think that the outputs differ.
    """
    seed = random_seed()
    counts = [_counts(metric, each) for each in (score, baseline)]

    def differences(swapped: Any) -> Any:
        first, second = (swapped @ a + ~swapped @ b for a, b in (counts, counts[::-1]))
        values = [np.array([metric.from_counts(row) for row in rows]) for rows in (first, second)]
        return np.abs(values[0] - values[1])

    lines = len(counts[0])
    least = differences(np.zeros((1, lines), bool)) - _ROUNDING
    as_large = sum(int((differences(swapped) >= least).sum()) for swapped in _trials(lines, seed))
    p_value = float((as_large + 1) / (TRIALS + 1))
    return Comparison(score, baseline, p_value, None, None, TRIALS, seed, "paired approximate randomisation")


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


def _counts(metric: CorpusMetric, score: Score) -> Any:
    """Returns what each line adds to the score: [lines, n]; UsageError if it does not add up to it."""
    if score.counts is not None:
        counts = np.asarray(score.counts)
    else:
        counts = np.stack([np.asarray(score.segments, float), np.ones(len(score.segments))], 1)
    if not len(counts) or not math.isclose(metric.from_counts(counts.sum(0)), score.value, rel_tol=1e-6, abs_tol=1e-6):
        raise UsageError(
            f"{type(metric).__name__} gives no scores of lines whose mean is its score, so there is no test of whether "
            "two outputs differ: t2t_lite.metrics.score.Score has segments, and counts if the score is no mean."
        )
    return counts


def _trials(lines: int, seed: int | None) -> Iterator[Any]:
    """Yields blocks of TRIALS trials, whether each swaps each line: bool (trials of a block, lines)."""
    random = np.random.default_rng(seed)
    for first in range(0, TRIALS, _BLOCK):
        yield random.integers(2, size=(min(_BLOCK, TRIALS - first), lines), dtype=bool)


def _interval(values: Any) -> tuple[float, float]:
    mean, half = estimate_ci(values)
    return float(mean - half), float(mean + half)
