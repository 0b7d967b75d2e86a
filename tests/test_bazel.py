"""The Bazel files follow the code: a BUILD per folder, its dependencies are its imports, and bazel can load them all.

A BUILD file is Starlark, whose syntax is Python's, so most of this runs where there is no bazel.
"""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import t2t_lite

ROOT = Path(__file__).resolve().parent.parent
OURS = ("hparams", "problems")  # t2t_lite/__init__.py finds them
FOLDERS = [*OURS, "t2t_lite", *sorted(f"t2t_lite/{path.parent.name}" for path in (ROOT / "t2t_lite").glob("*/*.py"))]
BINARIES = {path.stem for path in (ROOT / "t2t_lite/bin").glob("*.py") if "\ndef main(" in path.read_text("utf-8")}
# The registry imports these by name; the commands depend on them instead.
BY_NAME = {"//hparams", "//problems", "//t2t_lite/models"}


def _labels(folder: str) -> set[str]:
    """All labels of other packages that a BUILD file names."""
    tree = ast.parse((ROOT / folder / "BUILD").read_text(encoding="utf-8"))
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return {text for text in texts if text.startswith(("//", "@pypi//"))}


def _imported(folder: str) -> Iterator[str]:
    """Yields the label of each package that a folder's files import."""
    outside = {path.name for path in (ROOT / "t2t_lite").iterdir() if path.is_dir()}
    for path in (ROOT / folder).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:  # else of the folder itself
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            for name in names:
                first, second = [*name.split("."), ""][:2]
                if first == "t2t_lite":
                    yield f"//t2t_lite/{second}" if second in outside else "//t2t_lite"
                elif first in _locked():
                    yield f"@pypi//{first}"


def _locked() -> set[str]:
    """Import names of what requirements_lock.txt names."""
    text = (ROOT / "requirements_lock.txt").read_text(encoding="utf-8")
    return {name.replace("-", "_") for name in re.findall(r"^([a-z0-9-]+)==", text, re.MULTILINE)}


@pytest.mark.parametrize("folder", sorted(set(FOLDERS)))
def test_a_build_file_names_what_its_folder_imports(folder: str) -> None:
    needed = set(_imported(folder)) - {
        f"//{folder}",
        "//t2t_lite/api",
    }  # which the package imports when it is asked for
    assert needed - _labels(folder) == set()


def test_the_reader_of_build_files_finds_labels_and_imports() -> None:
    assert {"//t2t_lite", "@pypi//sentencepiece"} <= _labels("t2t_lite/text")
    assert {"//t2t_lite", "@pypi//keras"} <= set(_imported("t2t_lite/models"))


def test_the_commands_depend_on_all_that_the_registry_imports_by_name() -> None:
    assert _labels("t2t_lite/bin") >= BY_NAME


def test_every_folder_of_tests_has_a_build_file_that_declares_them() -> None:
    folders = {path.parent for path in (ROOT / "tests").rglob("test_*.py")}
    without = [
        str(folder.relative_to(ROOT))
        for folder in sorted(folders)
        if not (folder / "BUILD").is_file() or "pytest_tests(" not in (folder / "BUILD").read_text(encoding="utf-8")
    ]
    assert without == [], "each needs a BUILD like that of tests/data"


def test_module_bazel_has_the_version_of_the_package() -> None:
    text = (ROOT / "MODULE.bazel").read_text(encoding="utf-8")
    found = re.search(r'name = "t2t_lite",\n    version = "([^"]+)"', text)
    assert found is not None
    assert found.group(1) == t2t_lite.__version__


def test_bazel_loads_every_target() -> None:
    done = subprocess.run(
        ["sh", str(ROOT / "tests/bazel/check.sh")], capture_output=True, text=True, check=False, timeout=300
    )
    if done.returncode == 77:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    listed = set(done.stdout.split("\n"))
    expected = {f"//{folder}:{Path(folder).name}" for folder in FOLDERS}
    expected |= {f"//t2t_lite/bin:{name}" for name in BINARIES}
    expected |= {f"//{path.parent.relative_to(ROOT)}:{path.stem}" for path in (ROOT / "tests").rglob("test_*.py")}
    assert expected - listed == set()
