"""Some failed system calls of a training; `python -m tests.faults.failed_calls` makes all of them fail."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.failed_calls import build

pytestmark = pytest.mark.nightly


def test_a_training_whose_calls_fail_ends_with_the_same_weights(tmp_path: Path) -> None:
    if build(tmp_path) is None:
        pytest.skip("a C compiler and Linux are needed")
    command = [sys.executable, "-m", "tests.faults.failed_calls", "--only=training", "--most=1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = done.stdout.split("\n")
    assert (done.returncode, said[-2]) == (0, "0 faults"), done.stdout + done.stderr[-2000:]
    assert sum("rename" in line for line in said) >= 2
