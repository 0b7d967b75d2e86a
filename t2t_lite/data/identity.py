"""Identity of prepared data: whether a store equals what its problem would give now. Content decides, not paths.

The settings are compared first, then a fingerprint of the sources: SHA-256 of the checksum of each file that the
problem reads, and of the code of a user's own problem. If both are the same, the store is used. Settings or files that
differ are named. Where only code or folders differ, all of the text is read and its checksums are compared with those
in the manifest.

origin.json in the store holds what the fingerprint is made from, with date, paths, sizes and times. Files with the size
and time recorded there are not read again. Unlike the manifest, it differs between machines.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import hashlib
import json
import logging
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from t2t_lite.data.samples import OnPairs, read_pairs, reported, text_checksum
from t2t_lite.data.store import ORIGIN, Store
from t2t_lite.errors import DamagedError, DataError
from t2t_lite.files import json_text, read_json, replace_file, sha256_of
from t2t_lite.problem import VOCABULARY_OPTIONS, Problem
from t2t_lite.text.any_vocabulary import AnyVocabulary

Vocabularies = tuple[AnyVocabulary, AnyVocabulary]  # source, target; one object where both sides share it

FORMAT = 1  # of origin.json
_PREPARATION = 1  # to be raised when the same settings and text give other prepared data
_UNKNOWN = "unknown"  # code of a notebook or a console, which is in no file
_KINDS = {"path": str, "bytes": int, "mtime_ns": int, "sha256": str}
_SHOWN = 10  # changes in a message

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
        files = self.paths if self.files is None else {s: _contents(named) for s, named in self.files.items()}
        return hashlib.sha256(json.dumps([self.code, files], sort_keys=True).encode()).hexdigest()

    def folders(self) -> str:
        """The paths for a message, such as "/corpus"; "" where there are none."""
        return " and ".join(path.removeprefix(",,") for path in self.paths.values())


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Result of `compare`.

    Attributes:
        changes: one line for each difference; if there are none, the store can be used.
        of_settings: whether the settings differ, not the data.
        summary: when and from what the store was prepared, for the user.
        doubts: what could not be compared, and why; "" if everything was compared.
    """

    changes: list[str]
    of_settings: bool
    summary: str
    doubts: str = ""


def compare(
    store: Store, problem: Problem, vocabularies: Vocabularies | None, progress: OnPairs, *, trained: bool = False
) -> Comparison:
    """Compares a store with its problem as it is now; reads text only where settings and files leave the answer open.

    Args:
        trained: a run was trained on these data; so its sources may be gone, wherever they were.

    Raises:
        DataError: the store is damaged, the problem's samples are faulty, or its sources are others and cannot be read.
    """
    origin = _read_origin(store.folder)
    summary = _summary(store, origin)
    if changes := _setting_changes(store, problem, vocabularies):
        return Comparison(changes, True, summary)
    try:
        now = find_origin(problem, origin)
    except (DataError, OSError) as error:
        if not trained and origin is not None and _paths_of(problem) != origin.paths:  # others that cannot be read
            raise
        return Comparison([], False, summary, f"Its sources could not be compared: {error}")
    same = origin is not None and origin.fingerprint == now.fingerprint and now.code != _UNKNOWN
    changes = [] if same else _file_changes(origin, now)
    if not changes and not same:
        _log.info("%s may give other text than when its data were prepared; all of it is compared.", problem.name)
        try:
            changes = _text_changes(store, problem, progress)
        except (DataError, OSError) as error:
            return Comparison([], False, summary, f"Its text could not be compared: {error}")
        if changes and origin is not None:
            changes = [*_other_sources(problem, origin, now), *changes]
    if changes:
        return Comparison(changes, False, summary)
    if now != origin:
        _write_origin(store.folder, now)
    unnamed = f"{problem.name} does not name its source files (source_files), so they were not compared."
    return Comparison([], False, summary + _what_is_equal(origin, now), unnamed if same and now.files is None else "")


def refusal(folder: Path, found: Comparison) -> str:
    """Returns the message about a store that differs."""
    more = [f"  and {len(found.changes) - _SHOWN} more"] if found.changes[_SHOWN:] else []
    shown = "\n".join([*found.changes[:_SHOWN], *more])
    what, old = ("with other settings", "settings") if found.of_settings else ("from other data", "data")
    return (
        f"{folder} was prepared {what}:\n{shown}\n"
        f"Give another --data_dir, or go back to the old {old}; --prepare_again prepares it again."
    )


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


def find_origin(problem: Problem, known: Origin | None = None, prepared: str = "") -> Origin:
    """Returns the current origin of a problem.

    Args:
        known: the earlier origin, whose date counts; files with the same path, size and time are not read again.
        prepared: the date where there is no earlier origin.

    Raises:
        DataError: files are missing, or cannot be read.
    """
    before = {file.path: file for files in (known.files or {}).values() for file in files} if known else {}
    named = {split: problem.source_files(split) for split in problem.splits()}
    files = {
        split: [_look(Path(path), before) for path in paths] for split, paths in named.items() if paths is not None
    }
    return Origin(
        prepared=known.prepared if known else prepared,
        paths=_paths_of(problem),
        files=files if len(files) == len(named) else None,
        code=_code_checksum(problem.defining_class),
    )


def utc() -> str:
    """The time now, in ISO 8601."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def to_json(origin: Origin) -> str:
    """The text of origin.json."""
    return json_text({"format": FORMAT, **dataclasses.asdict(origin)}, indent=1)


def _write_origin(folder: Path, origin: Origin) -> None:
    """Replaces origin.json in a store; a store that cannot be written to keeps the old one."""
    with contextlib.suppress(OSError):  # the file only saves work the next time
        replace_file(folder / ORIGIN, to_json(origin))


def _read_origin(folder: Path) -> Origin | None:
    """Reads origin.json; None if it is damaged or missing; DataError if it has another format."""
    path = folder / ORIGIN
    try:
        return _origin(read_json(path, FORMAT, _origin, f"Remove {path}: all of the text is then compared."))
    except (OSError, DamagedError):
        return None


def _origin(values: dict[str, Any]) -> Origin:
    texts = [values["prepared"], values["code"] or "", *values["paths"].values()]
    entries = [file for named in (values["files"] or {}).values() for file in named]
    if not all(type(text) is str for text in texts) or any(_kinds(entry) != _KINDS for entry in entries):
        raise TypeError("an entry is of another type")
    files = values["files"] and {s: [SourceFile(**file) for file in named] for s, named in values["files"].items()}
    return Origin(**{**{name: value for name, value in values.items() if name != "format"}, "files": files})


def _kinds(entry: dict[str, Any]) -> dict[str, type]:
    return {name: type(value) for name, value in entry.items()}


def _paths_of(problem: Problem) -> dict[str, str]:
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
    """Checksum of all Python files in the folders of a user's own problem, or _UNKNOWN; None: no problem of a user."""
    folders = set()
    for cls in problem.__mro__:
        if cls.__module__.partition(".")[0] not in ("t2t_lite", *sys.stdlib_module_names):
            file = getattr(sys.modules.get(cls.__module__), "__file__", None)
            if file is None or not Path(file).is_file():  # such as <stdin>
                return _UNKNOWN
            folders.add(Path(file).parent)
    digests = sorted(_digest(folder.glob("*.py")) for folder in folders)
    return hashlib.sha256("".join(digests).encode()).hexdigest() if digests else None


def _digest(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for file in sorted(files):
        with contextlib.suppress(OSError):  # an editor may be about to replace it
            digest.update(file.read_bytes())
    return digest.hexdigest()


def _summary(store: Store, origin: Origin | None) -> str:
    pairs = store.manifest["splits"]["train"]["pairs"] if "train" in store.splits() else 0
    date = f" on {origin.prepared.partition('T')[0]}" if origin is not None and origin.prepared else ""
    source = f" from {origin.folders()}" if origin is not None and origin.paths else ""
    return f"Data prepared{date}{source} ({pairs:,} pairs) in {store.folder}."


def _what_is_equal(before: Origin | None, now: Origin) -> str:
    if before is not None and now.paths != before.paths:
        return f" The data of {now.folders() or 'this problem'} are the same."
    changed = before is not None and now.code != before.code
    return " The problem's code has changed; it gives the same text." if changed else ""


def _setting_changes(store: Store, problem: Problem, vocabularies: Vocabularies | None) -> list[str]:
    before = _flat(store.manifest["settings"])
    after = _flat(data_settings(problem, vocabularies))
    changes = []
    if "vocabulary" in before or "vocabulary" in after:
        names = {"vocabulary", *VOCABULARY_OPTIONS}
        before, after = ({n: v for n, v in side.items() if n not in names} for side in (before, after))
        given = None if vocabularies is None else [vocabulary.checksum for vocabulary in vocabularies]
        there = [vocabulary.checksum for vocabulary in (store.source_vocabulary, store.target_vocabulary)]
        if given != there:
            changes.append(f"  vocabulary: {_show(there)} -> {_show(given)}")
    return changes + [
        f"  {name}: {before.get(name)!r} -> {after.get(name)!r}"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]


def _show(checksums: list[str] | None) -> str:
    if checksums is None:
        return "none given (--vocabulary)"
    return " and ".join(dict.fromkeys(f"checksum {checksum[:12]}..." for checksum in checksums))


def _flat(settings: dict[str, Any]) -> dict[str, Any]:
    """Merges the options with the other settings; a setting that an option sets is named once."""
    return {**settings.get("options", {}), **{k: v for k, v in settings.items() if k != "options"}}


def _file_changes(origin: Origin | None, now: Origin) -> list[str]:
    """A line for each source file that differs; none where the files of one side are not known."""
    if origin is None or origin.files is None or now.files is None:
        return []
    changes = []
    for split in dict.fromkeys([*origin.files, *now.files]):
        old, new = origin.files.get(split, []), now.files.get(split, [])
        if [file.sha256 for file in old] == [file.sha256 for file in new]:
            continue  # the same content; names do not matter
        before_by_name, now_by_name = _by_name(old), _by_name(new)
        gone = [file for name, file in before_by_name.items() if name not in now_by_name]
        found = [f"  {split}: {file.path} is no longer read" for file in gone]
        pairs = [(before_by_name.get(name), file) for name, file in now_by_name.items()]
        found += [line for one, other in pairs if (line := _file_change(split, one, other))]
        changes += found or [f"  {split}: its files are read in another order"]
    return changes


def _other_sources(problem: Problem, origin: Origin, now: Origin) -> list[str]:
    """What is known of why the text differs: the code, or files that lie in other folders, beside other files."""
    code = [f"  the code of {problem.name}, or a Python file beside it"] if now.code != origin.code else []
    if origin.files is None or now.files is None:
        return code
    before, after = ({s: _places(named) for s, named in each.items()} for each in (origin.files, now.files))
    return [*code, *(f"  {s}: files are in other folders" for s in after if before.get(s) != after[s])]


def _contents(files: list[SourceFile]) -> list[tuple[int, str]]:
    """The folder's number and the checksum of each file; a problem may read its folders unequal numbers of times."""
    return list(zip(_places(files), [file.sha256 for file in files], strict=True))


def _places(files: list[SourceFile]) -> list[int]:
    """The number of each file's folder, counted in the order of the files, so that names of folders do not matter."""
    numbers: dict[Path, int] = {}
    return [numbers.setdefault(Path(file.path).parent, len(numbers)) for file in files]


def _by_name(files: list[SourceFile]) -> dict[tuple[str, int], SourceFile]:
    """The files by name and number; the number tells files of the same name in several corpora apart."""
    named: dict[tuple[str, int], SourceFile] = {}
    for file in files:
        name = Path(file.path).name
        named[name, sum(name == other for other, _ in named)] = file
    return named


def _file_change(split: str, old: SourceFile | None, new: SourceFile) -> str:
    if old is None:
        return f"  {split}: {new.path} is new"
    if old.bytes != new.bytes:
        return f"  {split}: {new.path} had {old.bytes:,} bytes and has {new.bytes:,}"
    return f"  {split}: {new.path} has other content, of the same size" if old.sha256 != new.sha256 else ""


def _text_changes(store: Store, problem: Problem, progress: OnPairs) -> list[str]:
    """Compares all of the text with the checksums in the manifest."""
    changes = []
    splits = store.manifest["splits"]
    for split in dict.fromkeys([*splits, *problem.splits()]):
        if split not in splits or split not in problem.splits():
            changes.append(f"  {split}: {'is new' if split not in splits else 'is no longer there'}")
            continue
        facts = splits[split]
        text = text_checksum(reported(read_pairs(problem, split), progress, f"comparing {split}"))
        if text.hexdigest() != facts.get("text_sha256"):
            left_out = facts["dropped"] + facts.get("overlapping", 0) + sum(facts.get("cleaned", {}).values())
            count = facts["pairs"] + left_out
            now = f"it had {count:,} pairs and has {text.count:,}" if text.count != count else "it holds other text"
            changes.append(f"  {split}: {now}")
    return changes
