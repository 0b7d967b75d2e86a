"""requirements_lock.txt: a hash for every file, all that setup.py needs, no build tool with a known vulnerability.

The tests use no network; `make audit` looks each version up in the public list of vulnerabilities.
"""

import functools
import re
import runpy
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
PYTHONS = ("3.11", "3.12", "3.13")
# The first version that fixes the newest known vulnerability; this and older vulnerabilities of the same tool.
FIXED_IN = {
    "pip": ("26.2", "CVE-2026-13346, CVE-2026-8643, CVE-2026-6357, CVE-2026-1703, CVE-2025-8869"),
    "setuptools": ("83", "CVE-2026-59890, CVE-2025-47273, CVE-2024-6345, CVE-2022-40897"),
    "wheel": ("0.46.2", "CVE-2026-24049, CVE-2022-40898"),
}


class Entry(NamedTuple):
    """One package of the lock."""

    wanted: Requirement
    version: str
    hashes: list[str]


def _read(text: str) -> dict[str, Entry]:
    """Returns the entries of a lock by name; ValueError for a line without an exact version and SHA-256 hashes."""
    entries = {}
    for line in re.sub(r"\\\n", " ", text).split("\n"):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        wanted, *hashes = re.split(r"\s+--hash=", line.strip())
        if not hashes or not all(re.fullmatch("sha256:[0-9a-f]{64}", found) for found in hashes):
            raise ValueError(f"no SHA-256 hash, or more than hashes: {line}")
        entry = Requirement(wanted)
        pinned = re.fullmatch(r"==([^*,]+)", str(entry.specifier))
        if pinned is None or entry.name in entries:
            raise ValueError(f"not exactly one version: {line}")
        entries[entry.name] = Entry(entry, pinned.group(1), hashes)
    return entries


@functools.cache
def _locked() -> dict[str, Entry]:
    """The entries of requirements_lock.txt by name."""
    return _read((ROOT / "requirements_lock.txt").read_text(encoding="utf-8"))


def _declared(monkeypatch: pytest.MonkeyPatch) -> list[Requirement]:
    """Returns all requirements of setup.py, including those of its extras."""
    options: dict[str, Any] = {}
    monkeypatch.setattr("setuptools.setup", lambda **given: options.update(given))
    runpy.run_path(str(ROOT / "setup.py"))
    return [
        Requirement(text)
        for texts in (options["install_requires"], *options["extras_require"].values())
        for text in texts
    ]


def _needed(wanted: Requirement, python: str) -> Iterator[Requirement]:
    """Yields the requirements of an installed package of the locked version, for Linux and one version of Python."""
    try:
        installed = metadata.distribution(wanted.name)
    except metadata.PackageNotFoundError:
        return
    if installed.version != _locked()[canonicalize_name(wanted.name)].version:
        return
    system = {"python_version": python, "python_full_version": f"{python}.9", "sys_platform": "linux"}
    for needed in map(Requirement, installed.requires or ()):
        if any(needed.marker is None or needed.marker.evaluate({**system, "extra": e}) for e in ("", *wanted.extras)):
            yield needed


def _holed(text: str) -> list[str]:
    """Returns the requirements in a text that allow a build tool with a known vulnerability."""
    found = re.findall(r"""["'](pip|setuptools|wheel)(?![\w-])([^"']*)["']""", text)
    assert found, "no build tool is named"
    holed = []
    for name, versions in found:
        floors = re.findall(r"(?:>=|==|~=)\s*([0-9.]+)", versions)
        if not floors or max(map(Version, floors)) < Version(FIXED_IN[name][0]):
            holed.append(f"{name}{versions}: fixed in {FIXED_IN[name][0]} ({FIXED_IN[name][1]})")
    return holed


def test_every_entry_is_one_version_with_hashes_and_no_place() -> None:
    assert len(_locked()) > 100
    assert all(canonicalize_name(name) == name for name in _locked())
    text = (ROOT / "requirements_lock.txt").read_text(encoding="utf-8")
    assert "://" not in text


def test_what_setup_declares_is_locked_within_its_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = _declared(monkeypatch)
    assert len(declared) > 30
    for wanted in declared:
        entry = _locked().get(canonicalize_name(wanted.name))
        assert entry is not None, f"{wanted} of setup.py is not in requirements_lock.txt: run make lock"
        assert entry.version in wanted.specifier, f"{wanted} but {entry.version} is locked: run make lock"


@pytest.mark.commit
@pytest.mark.parametrize("python", PYTHONS)
def test_what_is_locked_needs_nothing_that_is_not(python: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Follows each installed package's metadata: an unlocked requirement would stop `pip install --require-hashes`."""
    waiting, seen = _declared(monkeypatch), set()
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        key = (name, *sorted(wanted.extras))
        if key in seen:
            continue
        seen.add(key)
        for needed in _needed(wanted, python):
            entry = _locked().get(canonicalize_name(needed.name))
            assert entry is not None, f"{wanted.name} needs {needed}, which is not locked: run make lock"
            assert entry.version in needed.specifier, f"{wanted.name} needs {needed}, not {entry.version} as locked"
            marker = entry.wanted.marker
            assert marker is None or marker.evaluate({"python_version": python, "sys_platform": "linux"})
            waiting.append(needed)
    assert len(seen) > 30


def test_no_build_tool_is_locked_with_a_known_hole() -> None:
    assert {"setuptools", "wheel"} <= set(_locked())
    for name in sorted(FIXED_IN.keys() & _locked().keys()):
        first, holes = FIXED_IN[name]
        version = _locked()[name].version
        assert Version(version) >= Version(first), f"{name} {version} is locked, with {holes}: run make lock"


def test_no_place_that_names_build_tools_lets_one_with_a_known_hole_in() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert _holed(repr(project["build-system"]["requires"])) == []
    assert _holed((ROOT / "Makefile").read_text(encoding="utf-8")) == []
    assert _holed("['setuptools>=77,<85', \"wheel\", 'pip>=26.2']") == [
        "setuptools>=77,<85: fixed in 83 (CVE-2026-59890, CVE-2025-47273, CVE-2024-6345, CVE-2022-40897)",
        "wheel: fixed in 0.46.2 (CVE-2026-24049, CVE-2022-40898)",
    ]


@pytest.mark.skipif(Path(sys.prefix).name != "lowest", reason="not the environment that make test-lowest makes")
def test_the_environment_of_the_lowest_versions_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lower bound that another package's needs lift is one that no test has run with."""
    wanted = {found.name: found for found in _declared(monkeypatch) if not found.name.startswith("mecab-ko")}  # no test
    for name, found in wanted.items():
        (lowest,) = (part.version for part in found.specifier if part.operator == ">=")
        assert Version(metadata.version(name)) == Version(lowest), found
