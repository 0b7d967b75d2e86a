"""Goodput of a run: the share of its wall time in which it made updates that count."""

import calendar
import itertools
import time
from collections.abc import Mapping, Sequence
from typing import Any

from t2t_lite.progress import duration
from t2t_lite.runs.run_log import DONE, TIME_FORMAT

_LONGEST = 1e12  # seconds; a line with more is damaged

Rows = Sequence[Mapping[str, Any]]


class Goodput:
    """Seconds of updates, and since the run began.

    Updates that were lost do not count: those after the checkpoint from which a killed run resumed. Neither do starts,
    evaluations, checkpoints, XLA's compilations, nor the time between two starts, unless the first one had ended the
    run. The run began when its first start was recorded in run.json, with its data prepared.

    Args:
        starts: the entries of run.json.
        lines: of metrics.jsonl.
        first_step: the update that this start makes first. The time of updates before it which are in no line of
            metrics.jsonl is taken to be the mean.
    """

    def __init__(self, starts: Rows, lines: Rows, first_step: int) -> None:
        times = [(_seconds(start["start"]), start["end"] if start["status"] == DONE else None) for start in starts]
        self._began, self._starts = times[0][0] if times else time.time(), max(len(times), 1)
        for (_, ended), (started, _) in itertools.pairwise(times):
            self._began += started - _seconds(ended) if ended else 0
        kept = [
            line for line in lines if 0 <= line.get("trained_seconds", -1) <= _LONGEST and line["step"] < first_step
        ]
        self._trained: float
        step, self._trained = (kept[-1]["step"], kept[-1]["trained_seconds"]) if kept else (first_step - 1, 0.0)
        self._trained += (first_step - 1 - step) * self._trained / max(step, 1)

    def add(self, seconds: float) -> None:
        """Counts the seconds of updates."""
        self._trained += seconds

    def as_metrics(self) -> dict[str, float]:
        """The entries of a training line."""
        return {"trained_seconds": round(self._trained, 3), "goodput": round(self._trained / self._elapsed(), 4)}

    def __str__(self) -> str:
        starts = f", with {self._starts:,} starts," if self._starts > 1 else ""
        return (
            f"goodput:  {self._trained / self._elapsed():.0%} of the {duration(self._elapsed())} since the run began"
            f"{starts} went into updates that count"
        )

    def _elapsed(self) -> float:
        return max(time.time() - self._began, self._trained, 1e-9)  # the machine's clock may have been set


def _seconds(utc: str) -> float:
    return calendar.timegm(time.strptime(utc, TIME_FORMAT))
