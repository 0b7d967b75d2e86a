"""Goodput: what counts as training, and since when."""

import pytest

from t2t_lite.runs import goodput
from t2t_lite.runs.goodput import Goodput

HOUR = 3600  # seconds


def _at(text: str) -> str:
    return f"2026-11-28T{text}Z"


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(goodput.time, "time", lambda: goodput._seconds(_at("01:30:00")))


STARTS = [
    {"start": _at("00:00:00"), "end": None, "status": "killed"},
    {"start": _at("00:10:00"), "end": _at("00:20:00"), "status": "done"},
    {"start": _at("01:20:00"), "end": None, "status": "running"},
]
LINES = [{"step": step, "trained_seconds": 6.0 * step} for step in (10, 20, 30)] + [{"step": 20, "dev_loss": 1.0}]


def test_lost_updates_and_the_time_between_starts_do_not_count() -> None:
    """The hour after the run was done is no part of its time; updates 21 to 25 are in no line that is kept."""
    found = Goodput(STARTS, LINES, 26)
    found.add(30.0)
    assert found.as_metrics() == {"trained_seconds": 25 * 6.0 + 30.0, "goodput": 0.1}
    assert str(found) == (
        "goodput:  10% of the 30 min 00 s since the run began, with 3 starts, went into updates that count"
    )


@pytest.mark.parametrize("status", ["killed", "stopped: SIGTERM: step 3 of 9 is done and saved.", "failed: x"])
def test_the_time_after_any_other_end_counts(status: str) -> None:
    starts = [STARTS[0], {**STARTS[1], "status": status}, STARTS[2]]
    assert Goodput(starts, LINES, 31).as_metrics() == {"trained_seconds": 180.0, "goodput": round(180 / 1.5 / HOUR, 4)}


def test_a_run_without_lines_or_with_a_clock_that_was_set_back_has_a_share() -> None:
    assert Goodput(STARTS[2:], [], 101).as_metrics() == {"trained_seconds": 0.0, "goodput": 0.0}
    late = Goodput([{**STARTS[2], "start": _at("02:00:00")}], [], 1)
    late.add(5.0)
    assert late.as_metrics()["goodput"] == 1.0
    assert str(late) == "goodput:  100% of the 5 s since the run began went into updates that count"
