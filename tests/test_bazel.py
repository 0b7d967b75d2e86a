"""The Bazel files follow the code: they name what it imports, and bazel can load them.

A BUILD file is Starlark, whose syntax is Python's, so most of this runs where there is no bazel.
"""

import ast
import re
import subprocess
from pathlib import Path

import pytest

from t2t_lite import version

ROOT = Path(__file__).resolve().parent.parent
OURS = ("t2t_lite", "problems", "hparams")
COMMANDS = {path.stem for path in (ROOT / "t2t_lite/cli").glob("*.py") if "\ndef main(" in path.read_text("utf-8")}
PACKAGES = {"google": "protobuf", "grpc": "grpcio", "tensorflow_serving": "tensorflow_serving_api", "yaml": "pyyaml"}


def _texts(file: str) -> set[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def _imported(*folders: str) -> set[str]:
    """Returns the label of each locked package that files below the folders import."""
    lock = (ROOT / "requirements_lock.txt").read_text(encoding="utf-8")
    locked = {name.replace("-", "_") for name in re.findall(r"^([a-z0-9-]+)==", lock, re.MULTILINE)}
    found = set()
    for path in (path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [str(node.module)]
            found |= {name.split(".")[0] for name in names}
    return {f"@pypi//{PACKAGES.get(name, name)}" for name in found if PACKAGES.get(name, name) in locked}


def _labels(file: str) -> set[str]:
    return {text for text in _texts(file) if text.startswith("@pypi//")}


@pytest.mark.commit
def test_the_library_names_what_it_imports() -> None:
    assert _labels("BUILD") == _imported(*OURS)
    assert {"@pypi//grpcio", "@pypi//keras"} <= _labels("BUILD")


@pytest.mark.commit
def test_the_tests_name_what_they_import_besides() -> None:
    assert _imported("tests") - _labels("BUILD") <= _labels("tests/BUILD")


def test_each_command_is_a_binary() -> None:
    assert _texts("BUILD") >= COMMANDS


def test_no_folder_has_a_build_file_that_would_hide_it_from_the_patterns() -> None:
    folders = (*OURS, "tests", "docs", "examples", "benchmarks")
    found = [path for folder in folders for path in (ROOT / folder).rglob("BUILD*")]
    assert [str(path.relative_to(ROOT)) for path in found if path.is_file()] == ["tests/BUILD"]


def test_module_bazel_has_the_version_of_the_package() -> None:
    text = (ROOT / "MODULE.bazel").read_text(encoding="utf-8")
    found = re.search(r'name = "t2t_lite",\n    version = "([^"]+)"', text)
    assert found is not None
    assert found.group(1) == version.RELEASE


def test_bazel_loads_every_target() -> None:
    done = subprocess.run(
        ["sh", str(ROOT / "tests/bazel/check.sh")], capture_output=True, text=True, check=False, timeout=300
    )
    if done.returncode == 77:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    listed = set(done.stdout.split("\n"))
    tests = ROOT / "tests"
    expected = {"//:t2t_lite", *(f"//:{name}" for name in COMMANDS)}
    expected |= {f"//tests:{path.relative_to(tests).with_suffix('')}" for path in tests.rglob("test_*.py")}
    assert expected - listed == set()
