"""`make test` runs every check, also after one that fails, and its end names those that failed."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
STEPS = ["ruff check .", "ruff format --check .", "mypy", "lint-imports", "python -m pytest"]
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


@pytest.mark.parametrize(
    ("failing", "named"),
    [
        ("", ""),
        ("ruff mypy lint-imports python", "ruff check, ruff format, mypy, lint-imports, pytest"),
    ],
)
def test_each_check_runs_and_those_that_fail_are_named(failing: str, named: str, tmp_path: Path) -> None:
    """The tools are scripts that print their name and fail or not; Makefile takes their folder as installed."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("ruff", "mypy", "lint-imports", "python"):
        script = f'#!/bin/sh\necho {name} ran: "$@"\nexit {int(name in failing.split())}\n'
        (tools / name).write_text(script)
        (tools / name).chmod(0o755)
    for stamp in (".created", ".tools", ".uv", ".installed-test"):  # in this order, as make compares their times
        (tmp_path / stamp).touch()
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    command = ["make", f"VENV={tmp_path}", "test"]  # not as a part of the make that runs these tests
    done = subprocess.run(command, cwd=ROOT, env=outside, capture_output=True, text=True, check=False, timeout=60)
    lines = done.stdout.removesuffix("\n").split("\n")
    ran = [line.replace(" ran:", "") for line in lines if " ran:" in line]
    assert len(ran) == len(STEPS)
    assert all(line.startswith(step) for line, step in zip(ran, STEPS, strict=True))
    assert lines[-1].startswith("python ran: -m pytest ")  # the summary of pytest stands at the end
    assert (done.returncode != 0) == bool(failing)
    assert [line for line in done.stderr.split("\n") if "failed: " in line] == (
        [f"make test: failed: {named}"] if named else []
    )
