"""The version: the number of the release and the commit of the code, such as "0.1.0+g1234567".

setup.py runs this file by its path, so it needs the standard library only. Importing it runs nothing: git is asked when
the version is first printed or recorded.
"""

import functools
import os

RELEASE = "0.1.0"
UNKNOWN = f"{RELEASE}+unknown"

_ARCHIVED = "$Format:%H$"  # in an archive that git made, its commit: see .gitattributes
_PACKAGE = os.path.dirname(os.path.abspath(__file__))
_ROOT = os.path.dirname(_PACKAGE)


@functools.cache
def local_version() -> str:
    """Returns the release and the commit of this code, as PEP 440 writes them; UNKNOWN where nothing tells it.

    An installed package has the version that it was built with. A checkout asks git; ".dirty" follows the commit where
    files that git tracks are changed. An archive has its commit, and a source archive its version, written in it.
    """
    if os.path.isdir(os.path.join(_PACKAGE, "problems")):  # as in __init__.py: installed
        return _installed_version()
    if os.path.exists(os.path.join(_ROOT, ".git")):  # a file in a worktree and in a submodule
        return _of_git()
    if not _ARCHIVED.startswith("$"):
        return _with(_ARCHIVED)
    return _of_source_archive()


def _with(commit: str, dirty: str = "") -> str:
    return f"{RELEASE}+g{commit[:7]}{dirty}"


def _installed_version() -> str:
    """The version of the installation beside this package: sys.path may name others before it."""
    from importlib.metadata import distributions

    return next((found.version for found in distributions(name="t2t-lite", path=[_ROOT])), UNKNOWN)


def _of_git() -> str:
    # The second name: a repository that does not hold this code says nothing about it.
    found = _git("rev-parse", "HEAD", "HEAD:t2t_lite/version.py")
    changes = _git("status", "--porcelain", "--untracked-files=no")
    if not found or changes is None:
        return UNKNOWN
    return _with(found.decode("ascii"), ".dirty" if changes else "")


def _git(*command: str) -> bytes | None:
    """What git prints about the repository whose root is _ROOT; None if it cannot be run or fails.

    With its folder given, git looks for no repository around it, and does not ask whose it is. Without GIT_DIR and the
    like, a hook's variables do not count.
    """
    import subprocess

    places = (f"--git-dir={os.path.join(_ROOT, '.git')}", f"--work-tree={_ROOT}")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "--no-optional-locks", *places, *command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            env=kept,
        )
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def _of_source_archive() -> str:
    """The version in PKG-INFO, which setuptools writes into a source archive."""
    from email.parser import HeaderParser

    try:
        with open(os.path.join(_ROOT, "PKG-INFO"), encoding="utf-8") as file:
            return str(HeaderParser().parse(file).get("Version", UNKNOWN))
    except (OSError, UnicodeDecodeError):
        return UNKNOWN
