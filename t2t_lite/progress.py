"""Progress of long work, on standard error: a bar on a terminal, a plain line now and then where it is a file."""

from __future__ import annotations

import sys
import time
from typing import Any

_QUIET_SECONDS = 10.0  # shorter work needs no line
_SECONDS_BETWEEN = 30.0
_LONG = 600.0  # from here on people plan by the clock


class Progress:
    """Shows how much of `total` is done; call it with the number of items that were finished.

    On a terminal this is a bar. Elsewhere it is a line every half minute, once the work has taken ten seconds, and a
    last line at the end if there were others. It writes no carriage returns.

    Args:
        total: items to do.
        unit: what an item is, with a space before it: " lines".
        task: what is being done, at the beginning of the line or bar.
        quiet: show nothing.
    """

    def __init__(self, total: int, unit: str, task: str = "", *, quiet: bool = False) -> None:
        self._total, self._unit, self._task, self._quiet = total, unit, task, quiet
        self._done, self._start = 0, time.monotonic()
        self._next_line, self._lines = self._start + _QUIET_SECONDS, 0
        self._bar = None if quiet or not sys.stderr.isatty() else _bar(total, unit, task)

    def __call__(self, number: int) -> None:
        self._done += number
        if self._bar is not None:
            self._bar.update(number)
        elif not self._quiet and time.monotonic() >= self._next_line and self._done < self._total:
            self._line()
        if self._done >= self._total:
            self.close()

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
        now = time.monotonic()
        seconds = now - self._start
        left = seconds / max(self._done, 1) * (self._total - self._done)
        share = self._done / self._total
        self._print(f"{self._done:,} of {self._total:,}{self._unit} ({share:.0%}), about {time_left(left)}")
        self._next_line, self._lines = now + _SECONDS_BETWEEN, self._lines + 1

    def _print(self, text: str) -> None:
        print(f"{self._task}: {text}" if self._task else text, file=sys.stderr, flush=True)


def _bar(total: int, unit: str, task: str) -> Any:
    import tqdm

    return tqdm.tqdm(total=total, unit=unit, desc=task or None, leave=False)


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
