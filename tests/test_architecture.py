"""What neither `lint-imports` nor ruff sees (pyproject.toml has their rules): what commands load, and the tree."""

import ast
import itertools
import re
import subprocess
import sys
from pathlib import Path

import pytest

from t2t_lite import registry
from tests.commands import module_of

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted(path for folder in ("t2t_lite", "problems", "hparams") for path in (ROOT / folder).rglob("*.py"))
HEAVY = ("tensorflow", "keras", "jax", "tensorflow_text", "tensorflow_datasets", "sacrebleu")
HELP = """
import importlib
for name in {names}:
    try:
        status = importlib.import_module("t2t_lite.cli." + name).main(["--help"])
    except SystemExit as stop:
        status = stop.code
    if status:
        raise SystemExit(status)
"""


def test_no_module_splits_at_other_line_ends_or_reads_pickles() -> None:
    """`splitlines` also splits at U+2028 and the like; NumPy reads no pickle unless it is asked to."""
    found = re.compile(r"(?<!str)\.splitlines\(|allow_pickle=(?!False\b)")
    assert [str(path) for path in SOURCES if found.search(path.read_text(encoding="utf-8"))] == []


def test_only_the_registry_names_problems_and_hparams_as_text() -> None:
    """A module name in a string is an import in disguise."""
    packages = {"t2t_lite.problems": ROOT / "problems", "t2t_lite.hparams": ROOT / "hparams"}
    found = {
        path
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in packages and path.parent != packages[node.value]
    }
    assert found == {ROOT / "t2t_lite/registry.py"}


def test_no_two_hparams_sets_are_equal() -> None:
    sets = {name: registry.hparams(name) for name in registry.HPARAMS.names()}
    assert len(sets) >= 2
    assert [(a, b) for a, b in itertools.combinations(sets, 2) if sets[a] == sets[b]] == []


def test_the_tree_has_no_symlinks() -> None:
    """A checkout must also run where there are no symlinks, as on Windows or in an archive."""
    listed = subprocess.run(["git", "ls-files", "-s"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("this tree is no checkout of git")
    assert [line for line in listed.stdout.split("\n") if line.startswith("120000")] == []


@pytest.mark.parametrize("name", ["problems", "hparams"])
def test_problems_and_hparams_refuse_another_name(name: str) -> None:
    done = _python(f"import {name}")
    assert done.returncode == 1
    assert f"Import this package as t2t_lite.{name}, not as {name}." in done.stderr


def _python(code: str) -> subprocess.CompletedProcess[str]:
    """Runs `code` in a fresh interpreter at the root of the tree."""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)


def _load_nothing_heavy(code: str) -> str:
    """Runs `code`, checks that it loaded no TensorFlow or the like, and returns its output."""
    done = _python(f"{code}\nimport sys\nprint('heavy:', sorted(set({HEAVY}) & set(sys.modules)))")
    assert done.returncode == 0, done.stderr
    assert "heavy: []" in done.stdout
    return done.stdout


@pytest.mark.commit
def test_importing_and_listing_names_loads_no_tensorflow() -> None:
    _load_nothing_heavy(
        "import t2t_lite\nfrom t2t_lite import registry\n"
        "registry.PROBLEMS.names(), registry.HPARAMS.names()\nprint(registry.help_text())"
    )


def test_help_of_each_command_of_setup_loads_no_tensorflow() -> None:
    listed = re.search(
        r"^COMMANDS = \((.*?)\)$", (ROOT / "setup.py").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert listed is not None
    names = [module_of(name) for name in re.findall(r'"([\w-]+)"', listed[1])]
    assert len(_load_nothing_heavy(HELP.format(names=names)).split("usage: t2t-lite-")) == 1 + len(names) > 10
