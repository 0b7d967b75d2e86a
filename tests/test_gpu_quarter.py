"""The quarter of an hour on a GPU, rehearsed on the CPU: all commands of benchmarks/gpu/quarter.py, with small sizes.

A long test: eighteen processes that load TensorFlow.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = "benchmarks/gpu/quarter.py"


@pytest.mark.nightly
def test_every_part_runs_and_shows_its_figure(tmp_path: Path) -> None:
    command = [sys.executable, SCRIPT, str(tmp_path), "--rehearse"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    parts = dict(re.findall(r"^== (\w+): status 0, \d+ s\n((?:(?!==).*\n)*)", done.stdout, re.MULTILINE))
    assert len(parts) == 18
    timed = {"big"} | {name for name in parts if name.startswith("base")}
    assert len(timed) == 7
    for name in timed:
        assert re.search(r"[\d.]+ s a step .* target tokens/s, .*; first step [\d.]+ s", parts[name]), name
    for name in ("search", "search_512", "search_one"):
        assert re.search(r"^D[13] bfloat16: [\d.]+ s", parts[name], re.MULTILINE), name
    assert "BLEU" in parts["multi30k"]
    digests = [re.search(r"^([0-9a-f]{64}) ", parts[name], re.MULTILINE)[1] for name in ("exact_1", "exact_2")]  # type: ignore[index]
    assert digests[0] == digests[1]
    assert re.search(r"^Memory per device, estimated: ", parts["memory"], re.MULTILINE)
    assert "passed" in parts["tests"]


def test_what_does_not_fit_the_time_is_left_out_and_named(tmp_path: Path) -> None:
    command = [sys.executable, SCRIPT, str(tmp_path), "--seconds=5", "--only=base,memory"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^== (\w+): left out; it may take (\d+) s", done.stdout, re.MULTILINE) == [
        ("base", "100"),
        ("memory", "30"),
    ]
