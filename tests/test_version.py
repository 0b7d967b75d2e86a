"""The version names the commit of the code that runs: in a checkout, in archives and once installed."""

import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

import t2t_lite
from t2t_lite import version
from t2t_lite.runs.run_log import read_starts, record_start

ROOT = Path(__file__).resolve().parent.parent
UNKNOWN = f"{version.RELEASE}+unknown"
pytestmark = [pytest.mark.commit, pytest.mark.skipif(shutil.which("git") is None, reason="needs git")]


def _git(folder: Path, *command: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    return subprocess.run(["git", "-C", folder, *who, *command], capture_output=True, text=True, check=True).stdout


def _commit(folder: Path) -> str:
    """Makes a commit of all files, in a new repository if there is none, and returns its version."""
    _git(folder, "init", "-q")
    _git(folder, "add", "-A")
    _git(folder, "commit", "-qm", "x")
    return f"{version.RELEASE}+g{_git(folder, 'rev-parse', 'HEAD')[:7]}"


def _checkout(folder: Path) -> Path:
    """Writes what a checkout needs to find its version."""
    for name in ("t2t_lite/__init__.py", "t2t_lite/version.py", "problems/__init__.py", ".gitattributes"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, folder / name)
    return folder


def _local(folder: Path) -> str:
    return runpy.run_path(str(folder / "t2t_lite" / "version.py"))["local_version"]()


def test_a_checkout_has_its_commit_and_says_whether_it_is_changed(tmp_path: Path) -> None:
    here = _checkout(tmp_path / "here")
    commit = _commit(here)
    assert re.fullmatch(r"[0-9.]+\+g[0-9a-f]{7}", commit)
    assert _local(here) == commit
    (here / "notes.txt").write_text("not tracked")
    assert _local(here) == commit
    (here / "problems/__init__.py").write_text("# changed")
    assert _local(here) == f"{commit}.dirty"
    _git(here, "add", "problems")
    assert _local(here) == f"{commit}.dirty"
    assert _local(here) != _commit(here) == _local(here).removesuffix(".dirty")


def test_another_repository_says_nothing_about_this_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may lie around a copy, at the root of one without tracking it, or be what a hook's variables name."""
    (tmp_path / "theirs.txt").write_text("theirs")
    _commit(tmp_path)
    here = _checkout(tmp_path / "copy")
    assert _local(here) == UNKNOWN
    assert _local(_checkout(tmp_path)) == UNKNOWN
    commit = _commit(_checkout(tmp_path / "clone"))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / ".git/index"))
    assert _local(tmp_path / "clone") == commit


def test_an_archive_that_git_made_has_its_commit(tmp_path: Path) -> None:
    here = _checkout(tmp_path / "here")
    commit = _commit(here)
    _git(here, "archive", f"--output={tmp_path / 'code.tar'}", "HEAD")
    with tarfile.open(tmp_path / "code.tar") as tar:
        tar.extractall(tmp_path / "there", filter="data")
    assert _local(tmp_path / "there") == commit


@pytest.fixture(scope="module")
def source_archive(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """The version of a clone of this code, and its source archive, unpacked within another repository."""
    clone, outer = tmp_path_factory.mktemp("clone"), tmp_path_factory.mktemp("outer")
    for name in ("t2t_lite", "problems", "hparams"):
        shutil.copytree(ROOT / name, clone / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in (".gitattributes", ".gitignore", "MANIFEST.in", "README.md", "LICENSE", "pyproject.toml", "setup.py"):
        shutil.copyfile(ROOT / name, clone / name)
    built = _commit(clone)
    command = [sys.executable, "setup.py", "--quiet", "sdist", "--dist-dir", str(outer)]
    subprocess.run(command, cwd=clone, check=True, capture_output=True, timeout=120)
    (archive,) = outer.glob(f"t2t_lite-{built}.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(outer, filter="data")
    assert _commit(outer) != built
    return built, archive.with_name(archive.name.removesuffix(".tar.gz"))


def test_a_source_archive_has_the_version_it_was_made_of(source_archive: tuple[str, Path]) -> None:
    built, unpacked = source_archive
    assert _local(unpacked) == built
    command = [sys.executable, "setup.py", "--version"]
    assert subprocess.check_output(command, cwd=unpacked, text=True, timeout=60).split() == [built]


@pytest.mark.commit
def test_an_installation_has_the_version_it_was_built_with(source_archive: tuple[str, Path], tmp_path: Path) -> None:
    """Even at the root of another repository, and with another installation before it on the path."""
    built, unpacked = source_archive
    install = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-compile")
    subprocess.run([*install, f"--target={tmp_path}", unpacked], check=True, capture_output=True, timeout=300)
    _git(tmp_path, "init", "-q")
    assert _commit(tmp_path) != built
    assert (tmp_path / "t2t_lite/problems").is_dir()
    assert _local(tmp_path) == built
    shutil.rmtree(next(tmp_path.glob("t2t_lite-*.dist-info")))
    assert _local(tmp_path) == UNKNOWN


@pytest.fixture
def note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], bool]:
    """Runs Python code in a new process, and tells whether it ran git."""
    fake = tmp_path / "bin/git"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\necho ran >{tmp_path}/ran\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(fake.parent), prepend=os.pathsep)

    def ran_git(code: str) -> bool:
        (tmp_path / "ran").unlink(missing_ok=True)
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, timeout=60)
        return (tmp_path / "ran").exists()

    return ran_git


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="git is asked in a checkout only")
def test_git_runs_only_where_the_version_is_asked_for(note: Callable[[str], bool]) -> None:
    main = "import sys; from t2t_lite.cli import trainer; sys.argv = ['t2t-lite-trainer', {!r}]; trainer.main()"
    assert not note("import t2t_lite")
    assert not note(main.format("--help"))
    assert note(main.format("--version"))
    assert note("import t2t_lite; t2t_lite.__version__")


def test_the_package_and_a_runs_record_have_it(tmp_path: Path) -> None:
    assert t2t_lite.__version__ == version.local_version() == _local(ROOT)
    assert "__version__" in dir(t2t_lite)
    with record_start(tmp_path, request={}, devices="", first_step=1):
        pass
    assert read_starts(tmp_path)[0]["version"] == version.local_version()


def test_the_number_of_the_release_stands_in_one_file_of_the_code() -> None:
    paths = [
        ROOT / "setup.py",
        *(path for folder in ("t2t_lite", "problems", "hparams") for path in (ROOT / folder).rglob("*.py")),
    ]
    quoted = re.compile(rf"""["']{re.escape(version.RELEASE)}["'+]""")
    assert [path.name for path in paths if quoted.search(path.read_text("utf-8"))] == ["version.py"]
