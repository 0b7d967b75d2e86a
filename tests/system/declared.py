"""Makes a folder of links to exactly the packages that pip would install for t2t-lite, with some of its extras.

`python -S` with the folder on PYTHONPATH acts like a fresh environment, but without the minutes that creating one
takes. A package can be imported only if setup.py or one of the declared packages declares it.
"""

import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]


def link_declared(folder: Path, *extras: str) -> Path:
    """Returns `folder`/packages: links to the installed packages that setup.py and the packages themselves declare."""
    wanted = _closure(_own_metadata(folder / "built"), extras)
    packages = folder / "packages"
    packages.mkdir()
    for distribution in map(metadata.distribution, wanted):
        # RECORD is read directly: .files takes seconds for TensorFlow.
        names = {re.split("[/,]", line)[0] for line in (distribution.read_text("RECORD") or "").split("\n") if line}
        for name in names - {"..", "__pycache__"}:
            if not (packages / name).is_symlink():  # several packages share "google"
                (packages / name).symlink_to(str(distribution.locate_file(name)))
    return packages


def _own_metadata(folder: Path) -> metadata.Distribution:
    """Returns the metadata of the current setup.py, not of an installed version."""
    folder.mkdir(parents=True)
    command = [sys.executable, "setup.py", "--quiet", "egg_info", "--egg-base", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (found,) = folder.glob("*.egg-info")
    return metadata.Distribution.at(found)


def _closure(distribution: metadata.Distribution, extras: tuple[str, ...]) -> set[str]:
    """Returns the names of all packages that a package needs, without itself; fails if one is not installed."""
    found: set[str] = set()
    done: set[tuple[str, str]] = set()
    waiting = [(distribution, extra) for extra in ("", *extras)]
    while waiting:
        dependent, extra = waiting.pop()
        for requirement in map(Requirement, dependent.requires or ()):
            if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
                continue
            name = canonicalize_name(requirement.name)
            found.add(name)
            new = {(name, each) for each in ("", *requirement.extras)} - done
            done |= new
            waiting += [(metadata.distribution(name), each) for _, each in new]
    return found
