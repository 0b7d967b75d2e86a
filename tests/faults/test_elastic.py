"""A minute of a job whose processes come and go; `python -m tests.faults.elastic` takes longer."""

from pathlib import Path

import pytest

from tests.faults.elastic import CLOSE, try_elastic

pytestmark = pytest.mark.nightly


def test_jobs_whose_processes_come_and_go_end_as_undisturbed_ones(tmp_path: Path) -> None:
    outcome = try_elastic(tmp_path, 60, seed=3, steps=200)
    assert outcome.events.total() > 0
    assert (outcome.failed, outcome.not_the_same_bits) == (0, 0)
    assert outcome.largest_difference <= CLOSE
    assert all(0 < share < 1 for share in outcome.goodput)
