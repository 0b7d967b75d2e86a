"""Progress of long work, on standard error: a bar on a terminal, a plain line now and then where it is a file."""

from __future__ import annotations

import sys
import time
from typing import Any

from t2t_lite.verbosity import said

_QUIET_SECONDS = 10.0  # shorter work needs no line
_SECONDS_BETWEEN = 30.0
_MEASURED_SECONDS = 3.0  # the least time from which the time left is estimated
_LONG = 600.0  # from here on people plan by the clock


class Progress:
    """Shows how much of `total` is done; call it with the number of items that were finished.

    On a terminal this is a bar. Elsewhere it is a line every half minute, once the work has taken ten seconds, and a
    last line at the end if there were others. It writes no carriage returns.

    The time left is estimated from what was done since the first call, whose time holds the start of the work, such as
    tracing a graph. If items take unequal time, also pass what those of the call weigh; all weights together are
    `total`.

    Where nobody knows how much there is to do, `total` is None, and `reach` says what is done.

    Args:
        total: items to do; None: not known.
        unit: what an item is, with a space before it: " lines".
        task: what is being done, at the beginning of the line or bar.
    """

    def __init__(self, total: int | None, unit: str, task: str = "") -> None:
        self._total, self._unit, self._task, self._quiet = total or 0, unit, task, said.quiet
        self._done, self._weight, self._start = 0, 0.0, time.monotonic()
        self._first: tuple[float, float] | None = None  # the time of the first call, and the weight of its items
        self._next_line, self._lines = self._start + _QUIET_SECONDS, 0
        self._bar = None if said.quiet or not sys.stderr.isatty() else _bar(total, unit, task)

    def __call__(self, number: int, weight: float | None = None) -> None:
        self._done += number
        self._weight += number if weight is None else weight
        if self._first is None:
            self._first = (time.monotonic(), self._weight)
        if self._bar is not None:
            self._bar.set_postfix_str(self._left(), refresh=False)
            self._bar.update(number)
        elif not self._quiet and time.monotonic() >= self._next_line and self._done < self._total:
            self._line()
        if self._done >= self._total:
            self.close()

    def reach(self, done: int, stage: str) -> None:
        """Shows how many items of a stage are done; another `stage`, or a smaller number, begins the next one."""
        if self._bar is not None:
            if stage != self._bar.desc or done < self._bar.n:
                self._bar.reset()
                self._bar.set_description_str(stage)
            self._bar.update(done - self._bar.n)
        elif not self._quiet and time.monotonic() >= self._start + _SECONDS_BETWEEN:
            self._print(f"{stage}: {done:,}{self._unit}")
            self._start = time.monotonic()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Removes the bar, or writes the last line if there were others; a second call does nothing."""
        if self._bar is not None:
            self._bar.close()
        elif self._lines:
            self._print(f"{self._done:,} of {self._total:,}{self._unit} in {duration(time.monotonic() - self._start)}")
        self._lines = 0

    def _line(self) -> None:
        left = self._left()
        share = self._done / self._total
        self._print(f"{self._done:,} of {self._total:,}{self._unit} ({share:.0%})" + (f", {left}" if left else ""))
        self._next_line = time.monotonic() + (_SECONDS_BETWEEN if left else _QUIET_SECONDS)
        self._lines += 1

    def _left(self) -> str:
        """Returns the time left as text; "" as long as too little was measured."""
        then, weight = self._first or (self._start, 0.0)
        seconds = time.monotonic() - then
        if seconds < _MEASURED_SECONDS or self._weight <= weight:
            return ""
        left = seconds / (self._weight - weight) * max(self._total - self._weight, 0.0)
        return f"about {time_left(left)}"

    def _print(self, text: str) -> None:
        print(f"{self._task}: {text}" if self._task else text, file=sys.stderr, flush=True)


def _bar(total: int | None, unit: str, task: str) -> Any:
    import tqdm

    if total is None:
        return tqdm.tqdm(unit=unit, unit_scale=True, leave=False)
    # tqdm's own estimate knows neither the start of the work nor weights.
    shape = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]"
    return tqdm.tqdm(total=total, unit=unit, desc=task or None, leave=False, bar_format=shape)


def duration(seconds: float) -> str:
    """Returns a time span in its two largest units, such as "2 h 05 min"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    minutes = round(seconds / 60)
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    hours = round(seconds / 3600)
    return f"{hours // 24} d {hours % 24:02d} h"


def time_left(seconds: float) -> str:
    """Returns "3 min 20 s left"; from ten minutes on, also the local time at which the work ends."""
    if seconds < _LONG:
        return f"{duration(seconds)} left"
    now = time.time()
    end = time.localtime(now + seconds)
    day = "" if end[:3] == time.localtime(now)[:3] else "%a " if seconds < 6 * 86400 else "%Y-%m-%d "
    return f"{duration(seconds)} left, until {time.strftime(f'{day}%H:%M', end)}"
