"""Identity of prepared data: whether a store equals what a problem would give now. Content decides, not paths.

The manifest, which is equal on every machine, holds the problem's settings and the checksum of its text. Reading all of
the text at each start would take long. So its origin is compared first: the checksums of the source files, and the
user's own code (origin.py). If that leaves the answer open, the text is read and compared. So it is if files have moved
from one folder to another: text2text may read the two folders unequal numbers of times.
"""

from __future__ import annotations

import dataclasses
import json
import logging
from pathlib import Path
from typing import Any

from t2t_lite.data.cleaning import one_language
from t2t_lite.data.origin import UNKNOWN, Origin, SourceFile, find_origin, paths_of, read_origin, write_origin
from t2t_lite.data.samples import OnPairs, read_pairs, reported, text_checksum
from t2t_lite.data.store import Store
from t2t_lite.errors import DataError
from t2t_lite.problem import VOCABULARY_OPTIONS, Problem
from t2t_lite.text.any_vocabulary import AnyVocabulary

Vocabularies = tuple[AnyVocabulary, AnyVocabulary]  # source, target; one object where both sides share it

_SHOWN = 10  # changes in a message
_LATER = ("dev_lines_from", "copies")  # settings that old stores lack

_log = logging.getLogger("t2t_lite")


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
    doubts: str


def data_settings(problem: Problem, vocabularies: Vocabularies | None) -> dict[str, Any]:
    """The settings for the manifest; a given vocabulary is represented by its checksum."""
    settings: dict[str, Any] = json.loads(json.dumps(problem.settings()))
    languages = (problem.source_language, problem.target_language)
    if "copy" in problem.cleaning and languages[0] != languages[1] and one_language(*languages):
        settings["copies"] = "kept"  # before, they were left out
    if problem.drop_overlap:
        settings["drop_overlap"] = True
    if vocabularies is None:
        return settings
    options = {name: value for name, value in settings.get("options", {}).items() if name not in VOCABULARY_OPTIONS}
    kept = {name: value for name, value in settings.items() if name not in VOCABULARY_OPTIONS}
    return {**kept, "options": options, "vocabulary": [vocabulary.checksum for vocabulary in vocabularies]}


def compare(
    store: Store, problem: Problem, vocabularies: Vocabularies | None, progress: OnPairs, *, trained: bool = False
) -> Comparison:
    """Compares a store with its problem as it is now; reads text only where files and code leave the answer open.

    Args:
        trained: a run was trained on these data; so its sources may be gone, wherever they were.

    Raises:
        DataError: the store is damaged, the problem's samples are faulty, or its sources are others and cannot be read.
    """
    origin = read_origin(store.folder)
    summary = _summary(store, origin)
    changes = _setting_changes(store, problem, vocabularies, old=origin is None, trained=trained)
    if changes:
        return Comparison(changes, True, summary, "")
    if origin is None:
        doubts = "It holds no record of its sources (origin.json), so whether they have changed could not be compared."
        return Comparison([], False, summary, doubts)
    try:
        now = find_origin(problem, problem.splits(), origin)
    except (DataError, OSError) as error:
        if not trained and paths_of(problem) != origin.paths:  # not gone, but others that cannot be read
            raise
        return Comparison([], False, summary, f"Its sources could not be compared: {error}")
    moved: list[str] = []
    if origin.files is not None and now.files is not None:
        changes, moved = _file_changes(origin.files, now.files), _moved(origin.files, now.files)
        same_text = now.code == origin.code != UNKNOWN and not moved
    else:
        here, there = ((each.code, each.paths, each.files) for each in (now, origin))
        same_text = here == there and now.code != UNKNOWN
    doubts = ""
    if not changes and not same_text:
        _log.info("%s may give other text than when its data were prepared; all of it is compared.", problem.name)
        try:
            changes = _text_changes(store, problem, progress)
        except (DataError, OSError) as error:
            return Comparison([], False, summary, f"Its text could not be compared: {error}")
        changes = [*moved, *changes] if changes else []
        if changes and now.code != origin.code:
            changes.insert(0, f"  the code of {problem.name}, or a Python file beside it")
    if not changes:
        if now != origin:
            write_origin(store.folder, now)
        summary += _what_is_equal(origin, now)
        if now.files is None and same_text:
            doubts = f"{problem.name} does not name its source files (source_files), so they were not compared."
    return Comparison(changes, False, summary, doubts)


def refusal(folder: Path, found: Comparison) -> str:
    """Returns the message about a store that differs."""
    shown = [
        *found.changes[:_SHOWN],
        *([f"  and {len(found.changes) - _SHOWN} more"] if found.changes[_SHOWN:] else []),
    ]
    what = "with other settings" if found.of_settings else "from other data"
    old = "the old settings" if found.of_settings else "the old data"
    return (
        f"{folder} was prepared {what}:\n"
        + "\n".join(shown)
        + f"\nGive another --data_dir, or go back to {old}; --prepare_again prepares it again."
    )


def _summary(store: Store, origin: Origin | None) -> str:
    pairs = store.manifest["splits"]["train"]["pairs"] if "train" in store.splits() else 0
    if origin is None:
        return f"Data prepared by {store.manifest.get('made_by', 't2t-lite')} ({pairs:,} pairs) in {store.folder}."
    source = f" from {origin.folders()}" if origin.paths else ""
    return f"Data prepared on {origin.date}{source} ({pairs:,} pairs) in {store.folder}."


def _what_is_equal(before: Origin, now: Origin) -> str:
    if now.paths != before.paths:
        return f" The data of {now.folders() or 'this problem'} are the same."
    return " The problem's code has changed; it gives the same text." if now.code != before.code else ""


def _setting_changes(
    store: Store, problem: Problem, vocabularies: Vocabularies | None, *, old: bool, trained: bool
) -> list[str]:
    before = _flat(store.manifest["settings"])
    after = _flat(data_settings(problem, vocabularies))
    if trained:  # a training goes on with the data that it has
        after = {name: value for name, value in after.items() if name not in _LATER or name in before}
    if old:  # without a record of the files, only their paths can be compared
        options = problem.options()
        after |= {name: options.get(name) for name in problem.path_options if name in before}
    changes = []
    if "vocabulary" in before or "vocabulary" in after:
        names = {"vocabulary", *VOCABULARY_OPTIONS}
        before, after = ({n: v for n, v in side.items() if n not in names} for side in (before, after))
        given = None if vocabularies is None else [vocabulary.checksum for vocabulary in vocabularies]
        there = [vocabulary.checksum for vocabulary in (store.source_vocabulary, store.target_vocabulary)]
        if given != there:
            changes.append(f"  vocabulary: {_shown(there)} -> {_shown(given)}")
    return changes + [
        f"  {name}: {before.get(name)!r} -> {after.get(name)!r}"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]


def _shown(checksums: list[str] | None) -> str:
    if checksums is None:
        return "none given (--vocabulary)"
    return " and ".join(dict.fromkeys(f"checksum {checksum[:12]}..." for checksum in checksums))


def _flat(settings: dict[str, Any]) -> dict[str, Any]:
    """Merges the options with the other settings; a setting that an option sets is named once."""
    return {**settings.get("options", {}), **{k: v for k, v in settings.items() if k != "options"}}


def _file_changes(before: dict[str, list[SourceFile]], now: dict[str, list[SourceFile]]) -> list[str]:
    changes = []
    for split in dict.fromkeys([*before, *now]):
        old, new = before.get(split, []), now.get(split, [])
        if [file.sha256 for file in old] == [file.sha256 for file in new]:
            continue  # the same content; names do not matter
        before_by_name, now_by_name = _by_name(old), _by_name(new)
        gone = [file for name, file in before_by_name.items() if name not in now_by_name]
        found = [f"  {split}: {file.path} is no longer read" for file in gone]
        pairs = [(before_by_name.get(name), file) for name, file in now_by_name.items()]
        found += [line for one, other in pairs if (line := _file_change(split, one, other))]
        changes += found or [f"  {split}: its files are read in another order"]
    return changes


def _moved(before: dict[str, list[SourceFile]], now: dict[str, list[SourceFile]]) -> list[str]:
    """A line for each split whose files lie in other folders than before, side by side with other files."""
    return [f"  {s}: files are in other folders" for s in now if _places(before.get(s, [])) != _places(now[s])]


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
