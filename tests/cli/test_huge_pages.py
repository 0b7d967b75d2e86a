"""A command that computes starts again with huge pages, once, as the same process with the same arguments."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from t2t_lite.cli import huge_pages

COMMAND = """
import os, sys
from t2t_lite.cli.huge_pages import restart_with_huge_pages
print("start", os.getpid(), flush=True)
restart_with_huge_pages()
print(os.environ.get("GLIBC_TUNABLES"), sys.argv[1:], sys.stdin.read(), flush=True)
"""
SET = "glibc.malloc.hugetlb=1"


def run(folder: Path, name: str, **environ: str) -> list[str]:
    (folder / name).write_text(COMMAND)
    environment = {key: value for key, value in os.environ.items() if key != "GLIBC_TUNABLES"} | environ
    command = [sys.executable, str(folder / name), "--a=b c", ""]
    return subprocess.run(
        command, input="line", env=environment, capture_output=True, text=True, check=True
    ).stdout.splitlines()


@pytest.mark.skipif(not huge_pages._are_on_request(), reason="this system gives huge pages to all, or to none")
def test_a_command_restarts_once_with_its_arguments_and_input(tmp_path):
    *starts, last = run(tmp_path, "t2t-lite-decoder")
    assert starts == [starts[0]] * 2  # the same process
    assert last == f"{SET} ['--a=b c', ''] line"


def test_what_the_user_has_set_stays(tmp_path):
    assert run(tmp_path, "t2t-lite-decoder", GLIBC_TUNABLES="glibc.malloc.perturb=0")[1:] == [
        "glibc.malloc.perturb=0 ['--a=b c', ''] line"
    ]


def test_a_program_of_ones_own_does_not_restart(tmp_path):
    assert run(tmp_path, "translate.py")[1:] == ["None ['--a=b c', ''] line"]


@pytest.mark.parametrize(
    ("enabled", "library", "expected"),
    [
        ("always [madvise] never", "glibc 2.35", True),
        ("[always] madvise never", "glibc 2.36", False),
        ("always madvise [never]", "glibc 2.36", False),
        ("always [madvise] never", "glibc 2.34", False),
        ("always [madvise] never", "glibc 3.0", True),
        ("always [madvise] never", "", False),
        (None, "glibc 2.36", False),
    ],
)
def test_systems(tmp_path, monkeypatch, enabled, library, expected):
    path = tmp_path / "enabled"
    if enabled:
        path.write_text(enabled)
    monkeypatch.setattr(huge_pages, "_ENABLED", path)
    monkeypatch.setattr(os, "confstr", lambda name: library)
    assert huge_pages._are_on_request() == expected
