"""An installation holds every module once, under its one name, and nothing else."""

import re
import runpy
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that a wheel would hold, built from this tree."""
    folder = tmp_path_factory.mktemp("built")
    _setup(ROOT, "build_py", "--build-lib", str(folder))
    return folder


def _setup(root: Path, *command: str) -> None:
    done = subprocess.run(
        [sys.executable, "setup.py", "--quiet", *command],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_each_module_ships_once_and_nothing_else(built: Path) -> None:
    shipped = set(_files(built))
    tree = {str(path.relative_to(ROOT)) for path in (ROOT / "t2t_lite").rglob("*.py")}
    for name in ("problems", "hparams"):
        tree |= {f"t2t_lite/{path.relative_to(ROOT)}" for path in (ROOT / name).rglob("*.py")}
    pages = {
        str(path.relative_to(ROOT))
        for part in ("data", "demo", "importers", "insights")
        for path in (ROOT / "t2t_lite" / part).iterdir()
        if path.suffix in (".css", ".html", ".js", ".json", ".txt")
    }
    tables = {f"t2t_lite/problems/toy/{name}.txt" for name in ("ende", "treebank")}
    assert shipped == tree | pages | tables | {"t2t_lite/py.typed"}


@pytest.mark.commit
def test_a_source_archive_builds_the_same(built: Path, tmp_path: Path) -> None:
    _setup(ROOT, "egg_info", "--egg-base", str(tmp_path), "sdist", "--dist-dir", str(tmp_path))
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        assert not any(member.issym() or member.islnk() for member in tar)
        tar.extractall(tmp_path, filter="data")
    (unpacked,) = (path.parent for path in tmp_path.glob("*/setup.py"))
    _setup(unpacked, "build_py", "--build-lib", str(tmp_path / "again"))
    assert _files(tmp_path / "again") == _files(built)


def test_a_checkout_has_no_symlinks() -> None:
    """If symlinks are not supported, as in an archive unpacked by Python, a link would be a file that holds a path."""
    folders = (ROOT / name for name in ("t2t_lite", "problems", "hparams", "tests", "docs", "examples"))
    assert [str(path) for folder in folders for path in folder.rglob("*") if path.is_symlink()] == []


def test_a_module_is_found_under_its_one_name(built: Path) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(built)!r})\n"
        "from t2t_lite import registry\n"
        "print(registry.hparams('tiny').num_layers, registry.PROBLEMS.get('toy_ende').__module__.split('.')[:2])\n"
        "import t2t_lite.problems\n"
        "print(t2t_lite.problems.__file__)\n"
        "for name in ('problems', 'hparams', 'tests'):\n"
        "    try: __import__(name)\n"
        "    except ImportError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], cwd=built.parent, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout.split("\n") == [
        "2 ['t2t_lite', 'problems']",
        str(built / "t2t_lite" / "problems" / "__init__.py"),
        "No module named 'problems'",
        "No module named 'hparams'",
        "No module named 'tests'",
        "",
    ], done.stderr


def test_the_page_of_the_package_has_no_link_to_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package index shows README.md without the files beside it."""
    given: dict[str, Any] = {}
    monkeypatch.setattr("setuptools.setup", lambda **options: given.update(options))
    runpy.run_path(str(ROOT / "setup.py"))
    page, readme = given["long_description"], (ROOT / "README.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)]+)\)", page)
    assert links == [link for link in re.findall(r"\]\(([^)]+)\)", readme) if link.startswith("https://")] != []
    named = set(re.findall(r"\[([\w/.-]+\.md)\]", page))
    assert len(named) > 20
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []


def test_all_places_name_the_same_versions_of_python() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    first, end = map(int, re.findall(r'requires-python = ">=3\.(\d+),<3\.(\d+)"', project)[0])
    versions = [f"3.{minor}" for minor in range(first, end)]
    assert re.findall(r'"Programming Language :: Python :: (3\.\d+)"', project) == versions
    assert f"(3, {first}) <= sys.version_info < (3, {end})" in (ROOT / "Makefile").read_text(encoding="utf-8")
    spelled = f"Python {', '.join(versions[:-1])} or {versions[-1]}"
    for name in ("Makefile", "README.md", "CONTRIBUTING.md"):
        assert spelled in (ROOT / name).read_text(encoding="utf-8"), name
    assert f'python_version = "3.{first}"' in project  # mypy's; ruff takes requires-python
