"""Progress: a bar on a terminal, plain lines with the time left in a file, nothing for short work."""

import contextlib
import io
import os
import pty
import re
import select
import sys
import termios
import time

import pytest

from t2t_lite import progress
from t2t_lite.progress import Progress, duration, time_left
from t2t_lite.verbosity import saying
from tests.commands import without_progress

MONDAY = time.mktime((2026, 11, 23, 14, 0, 0, 0, 0, -1))  # local time


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The elapsed seconds; a test can advance them."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(progress.time, "time", lambda: MONDAY + now[0])
    return now


def _lines(work: Progress, clock: list[float], seconds: float, items: int, times: int) -> list[str]:
    """Returns the lines that `times` calls with `items` each write, at intervals of `seconds`."""
    with contextlib.redirect_stderr(io.StringIO()) as err:
        for _ in range(times):
            clock[0] += seconds
            work(items)
    text = err.getvalue()
    assert "\r" not in text
    assert text.endswith("\n") or not text
    return text.split("\n")[:-1]


def test_a_file_gets_a_line_every_half_minute_and_one_at_the_end(clock: list[float]) -> None:
    lines = _lines(Progress(1000, " lines", "dev"), clock, seconds=1, items=10, times=100)
    assert lines == [
        "dev: 100 of 1,000 lines (10%), about 1 min 30 s left",
        "dev: 400 of 1,000 lines (40%), about 1 min 00 s left",
        "dev: 700 of 1,000 lines (70%), about 30 s left",
        "dev: 1,000 of 1,000 lines in 1 min 40 s",
    ]
    said = [*lines, "step 1 of 9: loss 3.2", "error: 3 of 4 lines are empty."]  # other tests ignore the progress lines
    assert without_progress("".join(f"{line}\n" for line in said)) == "".join(f"{line}\n" for line in said[-2:])


def test_long_work_says_the_time_of_day_when_it_ends(clock: list[float]) -> None:
    lines = _lines(Progress(100, " lines"), clock, seconds=360, items=1, times=2)
    assert without_progress("".join(f"{line}\n" for line in lines)) == ""
    assert lines == [
        "1 of 100 lines (1%)",
        "2 of 100 lines (2%), about 9 h 48 min left, until Tue 00:00",
    ]


def test_work_of_less_than_ten_seconds_and_quiet_work_write_nothing(clock: list[float]) -> None:
    assert _lines(Progress(9, " lines"), clock, seconds=1, items=1, times=9) == []
    with saying(quiet=True):
        assert _lines(Progress(900, " lines"), clock, seconds=1, items=9, times=100) == []


def test_the_start_of_the_work_and_long_items_first_do_not_raise_the_estimate(clock: list[float]) -> None:
    """Half a minute to trace a graph, then batches of a second each: of 1, 2, ..., 40 lines, as they get shorter."""
    work = Progress(820, " lines")
    with contextlib.redirect_stderr(io.StringIO()) as err:
        clock[0] += 30
        for number in range(1, 41):
            clock[0] += 1
            work(number, 820 / 40)
    assert err.getvalue().split("\n")[:-1] == [
        "1 of 820 lines (0%)",
        "66 of 820 lines (8%), about 29 s left",
        "820 of 820 lines in 1 min 10 s",
    ]


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> None:
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    with open(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with Progress(4, " lines", "dev") as work:
            for _ in range(3):
                clock[0] += 4
                work(1)
            work(1)
        assert select.select([ours], [], [], 5)[0]
        text = os.read(ours, 65536).decode()
    os.close(ours)
    assert re.search(r"\rdev:  +0%\|.*\| 0/4 ", text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (200, "3 min 20 s"),
        (3599.6, "1 h 00 min"),
        (7500, "2 h 05 min"),
        (86399, "1 d 00 h"),
        (100 * 3600, "4 d 04 h"),
    ],
)
def test_durations_have_their_two_largest_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_the_time_of_day_has_a_day_or_a_date_where_it_is_not_today(clock: list[float]) -> None:
    hours = [0.1, 2, 24, 10 * 24]
    assert [time_left(3600 * h).partition(" left")[2] for h in hours] == [
        "",
        ", until 16:00",
        ", until Tue 14:00",
        ", until 2026-12-03 14:00",
    ]


def test_work_of_unknown_size_gets_a_line_every_half_minute(clock: list[float]) -> None:
    with contextlib.redirect_stderr(io.StringIO()) as err, Progress(None, " pairs", "preparing the data") as work:
        for done, stage in ((1000, "train"), (2000, "train"), (10, "dev")):
            clock[0] += 20
            work.reach(done, stage)
    assert err.getvalue() == "preparing the data: train: 2,000 pairs\n"
