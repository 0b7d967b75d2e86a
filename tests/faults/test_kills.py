"""A few kills at random moments; `python -m tests.faults.kills` tries more of them."""

from pathlib import Path

import pytest

from tests.faults.kills import SAVE_EVERY, try_kills

pytestmark = pytest.mark.nightly


def test_killed_runs_end_as_the_undisturbed_one(tmp_path: Path) -> None:
    outcome = try_kills(tmp_path, kills=2, seed=7)
    assert sum(outcome.phases.values()) >= 2
    assert (outcome.failed_starts, outcome.wrong) == (0, 0)
    assert outcome.most_steps_lost <= SAVE_EVERY
