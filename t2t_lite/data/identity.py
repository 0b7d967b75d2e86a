"""Identity of prepared data: whether a store equals what its problem would give now. Content decides, not paths.

A store is used if the settings are the same, each file that the problem reads has the same checksum, and so has the
code of a user's own problem. Settings or files that differ are named. If only the code differs, or is in no file (a
notebook), or origin.json is lost, all of the text is read and compared with the checksums in the manifest. A problem
that names no source files is trusted as long as its code is the same, with a warning.

origin.json in the store holds files and code, with date, paths, sizes and times. Files with the size and time recorded
there are not read again. Unlike the manifest, it differs between machines.
"""

import contextlib
import dataclasses
import datetime
import hashlib
import json
import logging
import sys
from pathlib import Path
from typing import Any

from t2t_lite.data.samples import OnPairs, hash_text, read_pairs, report
from t2t_lite.data.store import ORIGIN, Store
from t2t_lite.data.vocabulary_files import Vocabularies
from t2t_lite.errors import DamagedError, DataError
from t2t_lite.files import json_text, read_json, replace_file, sha256_of
from t2t_lite.problem import VOCABULARY_OPTIONS, Problem

FORMAT = 1  # of origin.json
_PREPARATION = 1  # to be raised when the same settings and text give other prepared data
_UNKNOWN = "unknown"  # code of a notebook or a console, which is in no file

_log = logging.getLogger("t2t_lite")


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
        prepared: date and time (UTC, ISO 8601); "" if the record was lost.
        paths: the problem's options that name files or folders.
        files: by split, in the order in which they are read; None: the problem does not name the files it reads.
        code: checksum of the user's own code that defines the problem, or _UNKNOWN; None: a problem of t2t-lite itself.
    """

    prepared: str
    paths: dict[str, str]
    files: dict[str, list[SourceFile]] | None
    code: str | None

    @property
    def fingerprint(self) -> str:
        """SHA-256 of code and files; of paths only where the files are not known."""
        sums = {split: [file.sha256 for file in files] for split, files in (self.files or {}).items()}
        return hashlib.sha256(json.dumps([self.code, sums or self.paths], sort_keys=True).encode()).hexdigest()

    def to_json(self) -> str:
        """The text of origin.json."""
        return json_text({"format": FORMAT, **dataclasses.asdict(self)}, indent=1)


def data_settings(problem: Problem, vocabularies: Vocabularies | None) -> dict[str, Any]:
    """The settings for the manifest; a given vocabulary is represented by its checksum."""
    settings: dict[str, Any] = json.loads(json.dumps(problem.settings())) | {"preparation": _PREPARATION}
    if problem.drop_overlap:
        settings["drop_overlap"] = True
    if vocabularies is None:
        return settings
    options = {name: value for name, value in settings.get("options", {}).items() if name not in VOCABULARY_OPTIONS}
    kept = {name: value for name, value in settings.items() if name not in VOCABULARY_OPTIONS}
    return {**kept, "options": options, "vocabulary": [vocabulary.checksum for vocabulary in vocabularies]}


def find_setting_changes(store: Store, problem: Problem, vocabularies: Vocabularies | None) -> list[str]:
    """Returns a line for each setting with which the problem would now be prepared otherwise."""
    # An option that has a setting of its own is named once.
    before, after = (
        {**settings.pop("options", {}), **settings}
        for settings in ({**store.manifest["settings"]}, data_settings(problem, vocabularies))
    )
    if "vocabulary" in before or "vocabulary" in after:
        for name in VOCABULARY_OPTIONS:
            before.pop(name, None), after.pop(name, None)
        before["vocabulary"] = _describe_vocabularies((store.source_vocabulary, store.target_vocabulary))
        after["vocabulary"] = _describe_vocabularies(vocabularies)
    return [
        f"  {name}: {before.get(name)!r} -> {after.get(name)!r}"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]


def _describe_vocabularies(vocabularies: Vocabularies | None) -> str:
    if vocabularies is None:
        return "none given (--vocabulary)"
    return " and ".join(dict.fromkeys(f"checksum {v.checksum[:12]}..." for v in vocabularies))


def find_data_changes(store: Store, problem: Problem, progress: OnPairs, *, trained: bool = False) -> list[str]:
    """Returns a line for each difference between a store's data and its problem's; if there are none, logs its origin.

    Args:
        trained: a run was trained on these data; so its sources may be gone, wherever they were.

    Raises:
        DataError: the problem's sources are in another place and cannot be read, or its samples are faulty.
    """
    origin = _read_origin(store.folder)
    try:
        now = find_origin(problem, origin)
        same = origin is not None and origin.fingerprint == now.fingerprint and now.code != _UNKNOWN
        if not same:
            changes = _find_file_changes(origin, now) or _find_text_changes(store, problem, progress, origin, now)
            if changes:
                return changes
    except (DataError, OSError) as error:
        if origin is not None and not trained and _paths_of(problem) != origin.paths:
            raise
        _log.warning("%s Its sources could not be compared: %s", _describe(store, origin), error)
        return []
    if now != origin:
        with contextlib.suppress(OSError):  # the file only saves work the next time
            replace_file(store.folder / ORIGIN, now.to_json())
    if same and now.files is None:
        unnamed = f"{problem.name} does not name its source files (source_files), so they were not compared."
        _log.warning("%s %s", _describe(store, now), unnamed)
    else:
        _log.info("%s", _describe(store, now))
    return []


def _describe(store: Store, origin: Origin | None) -> str:
    date = f" on {origin.prepared.partition('T')[0]}" if origin and origin.prepared else ""
    folders = " and ".join(path.removeprefix(",,") for path in origin.paths.values()) if origin else ""
    source = f" from {folders}" if folders else ""
    return f"Data prepared{date}{source} ({store.manifest['splits']['train']['pairs']:,} pairs) in {store.folder}."


def find_origin(problem: Problem, known: Origin | None = None) -> Origin:
    """Returns the current origin of a problem; its date is now, unless an earlier one is known.

    Args:
        known: the earlier origin; files with the same path, size and time are not read again.

    Raises:
        DataError: files are missing, or cannot be read.
    """
    before = {file.path: file for files in (known.files or {}).values() for file in files} if known else {}
    named = {split: problem.source_files(split) for split in problem.splits()}
    files = {
        split: [_inspect(Path(path), before) for path in paths] for split, paths in named.items() if paths is not None
    }
    return Origin(
        prepared=known.prepared if known else datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        paths=_paths_of(problem),
        files=files if len(files) == len(named) else None,
        code=_checksum_code(problem.defining_class),
    )


def _paths_of(problem: Problem) -> dict[str, str]:
    """Returns the options of a problem that name files or folders."""
    options = problem.options()
    return {name: str(options[name]) for name in problem.path_options if options.get(name) is not None}


def _inspect(path: Path, before: dict[str, SourceFile]) -> SourceFile:
    try:
        facts = path.stat()
        known = before.get(str(path))
        if known is not None and (known.bytes, known.mtime_ns) == (facts.st_size, facts.st_mtime_ns):
            return known
        return SourceFile(str(path), facts.st_size, facts.st_mtime_ns, sha256_of(path))
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error


def _checksum_code(problem: type[Problem]) -> str | None:
    """Checksum of all Python files in the folders of a user's own problem, or _UNKNOWN; None: no problem of a user."""
    modules = [cls.__module__ for cls in problem.__mro__]
    own = [name for name in modules if name.partition(".")[0] not in ("t2t_lite", *sys.stdlib_module_names)]
    files = [Path(getattr(sys.modules.get(name), "__file__", None) or "") for name in own]
    if not all(file.is_file() for file in files):  # such as <stdin>
        return _UNKNOWN
    digest = hashlib.sha256()
    for folder in dict.fromkeys(file.parent for file in files):
        for file in sorted(folder.glob("*.py")):
            with contextlib.suppress(OSError):  # an editor may be about to replace it
                digest.update(file.read_bytes())
    return digest.hexdigest() if files else None


def _read_origin(folder: Path) -> Origin | None:
    """Reads origin.json; None if it is damaged or missing; DataError if it has another format."""
    path = folder / ORIGIN
    try:
        return _parse(read_json(path, FORMAT, _parse, f"Remove {path}: all of the text is then compared."))
    except (OSError, DamagedError):
        return None


def _parse(values: dict[str, Any]) -> Origin:
    files = values["files"] and {s: [SourceFile(**file) for file in named] for s, named in values["files"].items()}
    return Origin(values["prepared"], values["paths"], files, values["code"])


def _find_file_changes(origin: Origin | None, now: Origin) -> list[str]:
    """A line for each source file that differs; none where the files of one side are not known."""
    if origin is None or origin.files is None or now.files is None:
        return []
    changes = []
    for split in dict.fromkeys([*origin.files, *now.files]):
        old, new = origin.files.get(split, []), now.files.get(split, [])
        if [file.sha256 for file in old] == [file.sha256 for file in new]:
            continue  # the same content; names do not matter
        sums, sums_now = ({file.sha256 for file in files} for files in (old, new))
        names, names_now = ({Path(file.path).name for file in files} for files in (old, new))
        found = [
            f"{f.path} has changed" if Path(f.path).name in names else f"{f.path} is new"
            for f in new
            if f.sha256 not in sums
        ]
        found += [
            f"{f.path} is no longer read"
            for f in old
            if f.sha256 not in sums_now and Path(f.path).name not in names_now
        ]
        found = found or ["its files are fewer, or read in another order"]
        changes += [f"  {split}: {line}" for line in dict.fromkeys(found)]
    return changes


def _find_text_changes(
    store: Store, problem: Problem, progress: OnPairs, origin: Origin | None, now: Origin
) -> list[str]:
    """Compares all of the text with the checksums in the manifest."""
    _log.info("%s may give other text than when its data were prepared; all of it is compared.", problem.name)
    before, changes = store.manifest["splits"], []
    for split in dict.fromkeys([*before, *problem.splits()]):
        if split not in before or split not in problem.splits():
            changes.append(f"  {split}: {'is new' if split not in before else 'is no longer there'}")
        else:
            text = report(read_pairs(problem, split), progress, f"comparing {split}")
            if hash_text(text) != before[split]["text_sha256"]:
                changes.append(f"  {split}: it holds other text")
    if changes and origin is not None and now.code != origin.code:
        changes.insert(0, f"  the code of {problem.name}, or a Python file beside it")
    return changes
