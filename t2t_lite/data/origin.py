"""The origin of prepared data (origin.json in the store): when they were prepared, and from which files and code.

Unlike the manifest, it differs between machines. Files with the size and time recorded here are not read again; their
checksums are taken from here.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import hashlib
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from t2t_lite.errors import DataError
from t2t_lite.files import json_text, replace_file, sha256_of
from t2t_lite.problem import Problem

ORIGIN = "origin.json"
UNKNOWN = "unknown"  # code of a notebook or a console, which is in no file


@dataclasses.dataclass(frozen=True)
class SourceFile:
    """A file that a problem reads, as it was when it was last checked."""

    path: str
    bytes: int
    mtime_ns: int
    sha256: str


@dataclasses.dataclass(frozen=True)
class Origin:
    """What prepared data were made from.

    Attributes:
        prepared: date and time (UTC, ISO 8601).
        paths: the problem's options that name files or folders.
        files: by split, in the order in which they are read; None: the problem does not name the files it reads.
        code: checksum of the user's own code that defines the problem, or UNKNOWN; None: a problem of t2t-lite itself.
    """

    prepared: str
    paths: dict[str, str]
    files: dict[str, list[SourceFile]] | None
    code: str | None

    @property
    def date(self) -> str:
        """The day, such as 2026-11-23."""
        return self.prepared.partition("T")[0]

    def folders(self) -> str:
        """The paths for a message, such as "/corpus"; "" where there are none."""
        return " and ".join(path.removeprefix(",,") for path in self.paths.values())


def find_origin(problem: Problem, splits: Sequence[str], known: Origin | None = None) -> Origin:
    """Returns the current origin of a problem.

    Args:
        known: the earlier origin; files with the same path, size and time are not read again.

    Raises:
        DataError: files are missing, or cannot be read.
    """
    paths = paths_of(problem)
    before = {file.path: file for files in (known.files or {}).values() for file in files} if known else {}
    files: dict[str, list[SourceFile]] = {}
    for split in splits:
        if (named := problem.source_files(split)) is not None:
            files[split] = [_look(Path(path), before) for path in named]
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    all_known = len(files) == len(splits)
    return Origin(
        known.prepared if known else now, paths, files if all_known else None, _code_checksum(problem.defining_class)
    )


def paths_of(problem: Problem) -> dict[str, str]:
    """Returns the options of a problem that name files or folders."""
    options = problem.options()
    return {name: str(options[name]) for name in problem.path_options if options.get(name) is not None}


def _look(path: Path, before: dict[str, SourceFile]) -> SourceFile:
    try:
        facts = path.stat()
        known = before.get(str(path))
        if known is not None and (known.bytes, known.mtime_ns) == (facts.st_size, facts.st_mtime_ns):
            return known
        checksum = sha256_of(path)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error
    return SourceFile(str(path), facts.st_size, facts.st_mtime_ns, checksum)


def _code_checksum(problem: type[Problem]) -> str | None:
    """Checksum of all Python files in the folders of a user's own problem; UNKNOWN if no file defines it; else None."""
    folders = set()
    for cls in problem.__mro__:
        if cls.__module__.partition(".")[0] not in ("t2t_lite", *sys.stdlib_module_names):
            file = getattr(sys.modules.get(cls.__module__), "__file__", None)
            if file is None or not Path(file).is_file():  # such as <stdin>
                return UNKNOWN
            folders.add(Path(file).parent)
    digests = sorted(_digest(folder.glob("*.py")) for folder in folders)
    return hashlib.sha256("".join(digests).encode()).hexdigest() if digests else None


def _digest(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for file in sorted(files):
        with contextlib.suppress(OSError):  # an editor may be about to replace it
            digest.update(file.read_bytes())
    return digest.hexdigest()


def to_json(origin: Origin) -> str:
    """The text of origin.json."""
    return json_text(dataclasses.asdict(origin), indent=1)


def write_origin(folder: Path, origin: Origin) -> None:
    """Replaces origin.json in a store; a store that cannot be written to keeps the old one."""
    with contextlib.suppress(OSError):  # the file only saves work the next time
        replace_file(folder / ORIGIN, to_json(origin))


def read_origin(folder: Path) -> Origin | None:
    """Reads origin.json; None if it is damaged or missing, as in stores made before it was introduced."""
    try:
        values = json.loads((folder / ORIGIN).read_text(encoding="utf-8"))
        return _from_json(values)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _from_json(values: dict[str, Any]) -> Origin:
    files = values["files"]
    origin = Origin(
        prepared=values["prepared"],
        paths=dict(values["paths"]),
        files=None if files is None else {s: [SourceFile(**file) for file in named] for s, named in files.items()},
        code=values["code"],
    )
    texts = [origin.prepared, *origin.paths.values(), origin.code or ""]
    texts += [file.path for named in (origin.files or {}).values() for file in named]
    texts += [file.sha256 for named in (origin.files or {}).values() for file in named]
    numbers = [number for named in (origin.files or {}).values() for f in named for number in (f.bytes, f.mtime_ns)]
    if not all(isinstance(text, str) for text in texts) or not all(type(number) is int for number in numbers):
        raise ValueError("another form")
    return origin
