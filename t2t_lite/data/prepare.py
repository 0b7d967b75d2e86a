"""prepare: a problem's text to a vocabulary and a token store, once."""

from __future__ import annotations

import itertools
import json
import logging
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from t2t_lite import __version__
from t2t_lite.data.cleaning import Cleaner
from t2t_lite.data.durable import exclusive
from t2t_lite.data.encode import Pair, Side, encode_pairs
from t2t_lite.data.store import SIDES, Store, open_store
from t2t_lite.data.store_writer import SequenceWriter, StoreWriter, put_back
from t2t_lite.errors import DataError, UsageError
from t2t_lite.problem import Problem
from t2t_lite.text.tag_table import TAGS_FILE, WSJ, TagCounts
from t2t_lite.text.vocabulary import Vocabulary, train_vocabulary

Progress = Callable[[int, str], None]  # (pairs done, what is being done)

_REPORT_EVERY = 10_000  # pairs
_SEED = 1  # of the sample that the vocabulary is trained on

_log = logging.getLogger("t2t_lite")


def prepare(
    problem: Problem,
    data_dir: str | os.PathLike[str],
    *,
    num_workers: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Store:
    """Returns the store `data_dir`/NAME of `problem`; makes it if it is not there yet.

    A store that was made with the same settings is opened as it is. Memory is bounded: text is read as a stream. The
    store appears under its name only when it is whole.

    Args:
        num_workers: processes that encode; None: one per CPU, 16 at most.
        force: make it anew even if it is there.
        progress: called now and then with (pairs done, label).

    Raises:
        UsageError: the store was made with other settings (the message lists them).
        DataError: faulty text, or a damaged store.
    """
    if not problem.name:
        raise UsageError(f"{type(problem).__name__} has no name; decorate it with @register_problem.")
    if num_workers is not None and num_workers < 1:
        raise UsageError(f"--num_workers={num_workers} must be at least 1.")
    folder = Path(data_dir) / problem.name
    put_back(folder)
    store = None if force else _existing(problem, folder)
    if store is not None:
        return store
    splits = _checked_splits(problem)  # before anything is written
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise UsageError(f"--data_dir={data_dir} is not a folder.") from None
    with exclusive(folder):
        # Another process may have made it while this one waited.
        store = None if force else _existing(problem, folder)
        if store is not None:
            return store
        if folder.exists():
            open_store(folder)  # `force` replaces a store, never a folder of something else
        # The file without a name is gone when it is closed, or the process killed.
        with StoreWriter(folder) as writer, tempfile.TemporaryFile(dir=folder.parent) as verdicts:
            _write(
                problem,
                splits,
                writer,
                verdicts,
                num_workers or min(_cpus(), 16),
                progress or (lambda done, label: None),
            )
    return open_store(folder)


def _cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _checked_splits(problem: Problem) -> tuple[str, ...]:
    splits = problem.splits()
    for needed in ("train", "dev"):
        if needed not in splits:
            raise DataError(f"The problem {problem.name!r} has no split {needed!r}, only {', '.join(splits)}.")
    return splits


def _existing(problem: Problem, folder: Path) -> Store | None:
    if not folder.exists():
        return None
    store = open_store(folder)
    old, new = _flat(store.manifest["settings"]), _flat(json.loads(json.dumps(problem.settings())))
    changes = [
        f"  {name}: {old.get(name)!r} -> {new.get(name)!r}"
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]
    if changes:
        raise UsageError(
            f"{folder} was prepared with other settings:\n"
            + "\n".join(changes)
            + "\nGive another --data_dir, or go back to the old settings."
        )
    return store


def _flat(settings: dict[str, Any]) -> dict[str, Any]:
    """Puts the options beside the other settings; a setting that an option has set is named once."""
    return {**settings.get("options", {}), **{k: v for k, v in settings.items() if k != "options"}}


def _write(
    problem: Problem,
    splits: tuple[str, ...],
    writer: StoreWriter,
    verdicts: IO[bytes],
    num_workers: int,
    progress: Progress,
) -> None:
    # The small splits first: a fault in them shows before the long work on train.
    small = {split: list(_pairs(problem, split)) for split in splits if split != "train"}
    for split, pairs in small.items():
        _write_text(split, pairs, writer)
    train = _TrainingText(problem, verdicts, progress)
    vocabularies = _train_vocabularies(problem, train, progress)
    shared = vocabularies[0] is vocabularies[1]
    names = ("vocabulary.model",) * 2 if shared else ("source.model", "target.model")
    for name, vocabulary in dict(zip(names, vocabularies, strict=True)).items():
        writer.file(name).write(vocabulary.model_proto)
    facts: dict[str, dict[str, Any]] = {}
    tags = TagCounts(WSJ.deleted if problem.evalb is None else problem.evalb.delete_label)
    for split in splits:
        text = small[split] if split in small else train.read()
        if problem.target_kind == "tree" and split == "train":
            text = tags.watch(text)
        chunks = encode_pairs(text, vocabularies, num_workers=num_workers)
        facts[split] = _write_ids(problem, split, chunks, vocabularies, writer, progress)
        facts[split] |= {"text": True, "dropped": 0} if split in small else {"text": False, **train.left_out()}
    table = tags.table()
    if table is not None:
        writer.file(TAGS_FILE).write(table.to_json().encode())
        for split, pairs in small.items():
            table.check_gold(split, pairs)
    writer.finish(
        {
            "made_by": f"t2t-lite {__version__}",
            "settings": problem.settings(),
            "vocabularies": dict(zip(SIDES, names, strict=True)),
            "splits": facts,
        }
    )


class _TrainingText:
    """The training pairs that are used: with text on both sides, and cleaned if the problem asks for that."""

    def __init__(self, problem: Problem, verdicts: IO[bytes], progress: Progress) -> None:
        self._problem = problem
        self._empty = 0
        self._cleaner: Cleaner | None = None
        if problem.clean:
            pairs = _reported(self._with_text(), progress, "cleaning")
            self._cleaner = Cleaner(pairs, verdicts, problem.clean_max_words, problem.clean_max_ratio)
            counts = ", ".join(f"{count:,} {reason}" for reason, count in self._cleaner.counts.items())
            _log.info("Cleaning leaves out %s training pairs: %s.", f"{sum(self._cleaner.counts.values()):,}", counts)

    def read(self) -> Iterator[Pair]:
        """Yields the pairs, from the first one, at each call."""
        return self._with_text() if self._cleaner is None else self._cleaner.clean(self._with_text())

    def left_out(self) -> dict[str, Any]:
        """How many were left out, and why; known when all have been read."""
        return {"dropped": self._empty, **({} if self._cleaner is None else {"cleaned": self._cleaner.counts})}

    def _with_text(self) -> Iterator[Pair]:
        self._empty = 0
        for pair in _pairs(self._problem, "train"):
            if pair[0].strip() and pair[1].strip():
                yield pair
            else:
                self._empty += 1


def _write_text(split: str, pairs: Iterable[Pair], writer: StoreWriter) -> None:
    files = [writer.file(f"{split}.{side}.txt") for side in SIDES]
    for pair in pairs:
        for file, line in zip(files, pair, strict=True):
            file.write(line.encode() + b"\n")


def _train_vocabularies(problem: Problem, text: _TrainingText, progress: Progress) -> tuple[Vocabulary, Vocabulary]:
    def train(sides: slice, kind: str) -> Vocabulary:
        pairs = _reported(text.read(), progress, "vocabulary")
        return train_vocabulary(
            itertools.chain.from_iterable(pair[sides] for pair in pairs),
            size=problem.vocab_size,
            kind=kind,
            character_coverage=problem.character_coverage,
            seed=_SEED,
        )

    if problem.shared_vocab:
        vocabulary = train(slice(None), problem.vocab_type)
        return vocabulary, vocabulary
    target_kind = "word" if problem.target_kind == "tree" else problem.vocab_type
    return train(slice(0, 1), problem.vocab_type), train(slice(1, 2), target_kind)


def _write_ids(
    problem: Problem,
    split: str,
    chunks: Iterable[tuple[Side, Side]],
    vocabularies: tuple[Vocabulary, Vocabulary],
    writer: StoreWriter,
    progress: Progress,
) -> dict[str, Any]:
    sides = [
        SequenceWriter(writer, f"{split}.{side}", vocabulary.size)
        for side, vocabulary in zip(SIDES, vocabularies, strict=True)
    ]
    done = 0
    for chunk in chunks:
        for side, encoded in zip(sides, chunk, strict=True):
            side.write(encoded)
        done += len(chunk[0].lengths)
        progress(done, split)
    if not done:
        raise DataError(
            f"The split {split!r} of {problem.name!r} has no pairs{' with text' if split == 'train' else ''}."
        )
    return {"pairs": done, **{side: file.facts() for side, file in zip(SIDES, sides, strict=True)}}


def _pairs(problem: Problem, split: str) -> Iterator[Pair]:
    """The problem's samples, checked: two texts of one line each."""
    for number, pair in enumerate(problem.samples(split), start=1):
        if not (isinstance(pair, tuple | list) and len(pair) == 2 and all(isinstance(text, str) for text in pair)):
            raise DataError(
                f"samples({split!r}) of {problem.name!r} gave {pair!r:.200} as pair {number}; a pair is (str, str)."
            )
        if "\n" in pair[0] or "\n" in pair[1]:
            raise DataError(
                f"samples({split!r}) of {problem.name!r}: pair {number} has a line break in it; a text is one line."
            )
        yield pair[0], pair[1]


def _reported(pairs: Iterator[Pair], progress: Progress, label: str) -> Iterator[Pair]:
    for number, pair in enumerate(pairs):
        if number % _REPORT_EVERY == 0:
            progress(number, label)
        yield pair
