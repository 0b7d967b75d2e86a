"""A few kills at random moments; `python -m tests.faults.kills` tries more of them."""

import subprocess
from pathlib import Path

import pytest

from tests.faults.kills import KINDS, SAVE_EVERY, small_disk, try_kills
from tests.faults.test_full_disk import mount

pytestmark = pytest.mark.nightly


def test_killed_runs_end_as_the_undisturbed_one(tmp_path: Path) -> None:
    outcome = try_kills(tmp_path, kills=2, seed=7)
    assert outcome.phases.total() >= 2
    assert (outcome.failed_starts, outcome.wrong) == (0, 0)
    assert outcome.most_steps_lost <= SAVE_EVERY


def test_runs_ended_in_every_way_end_as_the_undisturbed_one(tmp_path: Path) -> None:
    (tmp_path / "tried").mkdir()
    mount(tmp_path / "tried", "size=4k")  # skips where that is not allowed
    subprocess.run(["umount", str(tmp_path / "tried")], check=True)
    with small_disk(tmp_path / "disk") as disk:
        outcome = try_kills(disk, kills=5, seed=8, kinds=KINDS)
    assert outcome.phases.total() >= 5
    assert (outcome.failed_starts, outcome.wrong) == (0, 0)
