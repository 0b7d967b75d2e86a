"""Signals aimed at one system call each; `python -m tests.faults.sequences` makes more such runs."""

import signal
from pathlib import Path

import pytest

from tests.faults.sequences import plan, try_sequences

pytestmark = pytest.mark.nightly

# This run is stopped as the only evaluation begins, started again, killed while it writes the best weights, and
# started again.
SEED = 542


def test_best_weights_are_not_lost_between_their_score_and_their_saving(tmp_path: Path) -> None:
    assert [(name, start.signal) for name, start in plan(SEED)] == [
        ("evaluation", signal.SIGINT),
        ("best", signal.SIGKILL),
    ]
    outcome = try_sequences(tmp_path, range(SEED, SEED + 1))
    assert (outcome.stops, outcome.kills["best"]) == (1, 1)
    assert (outcome.endless, outcome.wrong, outcome.faults) == (0, 0, 0)
