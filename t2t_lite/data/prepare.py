"""Preparation of data: a problem's text becomes a vocabulary and a token store, once."""

import functools
import json
import logging
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from t2t_lite.cpus import available_cpus
from t2t_lite.data import beam_text, identity, text_counts
from t2t_lite.data.encode import Pair, Side, encode_pairs
from t2t_lite.data.overlap import Overlap, overlap_line
from t2t_lite.data.parts import Parts, checksum
from t2t_lite.data.pipelines import Beam
from t2t_lite.data.range_text import VOCABULARY_SEED, RangeText, ranges_of
from t2t_lite.data.remote_store import url_of
from t2t_lite.data.samples import (
    OnPairs,
    TrainingFacts,
    TrainingText,
    VocabularyRecipe,
    find_place,
    hash_text,
    read_pairs,
)
from t2t_lite.data.store import ALIGNMENT, MANIFEST, MOST_PLACES, SIDES, WEIGHTS, Store, open_store
from t2t_lite.data.store_writer import SequenceWriter, StoreWriter, recover
from t2t_lite.data.synthetic import find_provenance
from t2t_lite.data.text_counts import counts_of
from t2t_lite.data.vocabulary_files import Vocabularies, by_file
from t2t_lite.data.weight_files import keep_weights
from t2t_lite.errors import DataError, UsageError, did_you_mean
from t2t_lite.files import StrPath, check_folder, file_lock
from t2t_lite.problem import Problem, check_codec
from t2t_lite.text.any_vocabulary import AnyVocabulary
from t2t_lite.text.labels import split_label
from t2t_lite.text.unknown_pieces import UnknownPieces
from t2t_lite.text.vocabulary_training import warn_of_few_pieces
from t2t_lite.version import local_version

_SHOWN = 10  # changes in a message

_log = logging.getLogger("t2t_lite")


def prepare(
    problem: Problem,
    data_dir: StrPath,
    *,
    vocabularies: Vocabularies | None = None,
    num_workers: int | None = None,
    force: bool = False,
    again: bool = False,
    known: str | None = None,
    progress: OnPairs | None = None,
    beam: Beam | None = None,
) -> Store:
    """Returns the store `data_dir`/NAME of `problem`; makes it if it is not there yet.

    A store that was made from the same data with the same settings (identity.py) is opened as it is. Memory is bounded:
    text is read as a stream. The store appears under its name only when it is complete.

    Args:
        vocabularies: (source, target), to encode the text with; None: a vocabulary is trained on the text.
        num_workers: processes that encode; None: one per CPU, 16 at most.
        force: make it again even if it is there.
        again: make it again if it was made from other data, or with other settings.
        known: checksum of the data that a run was trained on; if the store has it, sources that are gone do not matter.
        progress: called now and then with (pairs done, label).
        beam: whose pipelines read, clean and encode the training text; None: processes of this machine. What they have
            made stays beside the store until it is complete, so that another call continues.

    Raises:
        UsageError: the store was made with other settings (the message lists them).
        DataError: the store was made from other data (also listed); faulty text, or a damaged store.
    """
    _check_arguments(problem, num_workers)
    folder = Path(data_dir) / problem.name
    if folder.is_symlink():  # what it points to is replaced, not the link
        folder = Path(os.path.realpath(folder))
    recover(folder)
    progress = progress or (lambda done, label: None)
    store = None if force or again else _open_if_same(problem, folder, vocabularies, progress, known)
    if store is not None:
        return store
    if url := url_of(folder):
        raise UsageError(
            f"The data in {url} is only read here. Prepare it again with t2t-lite-datagen --prepare_again."
        )
    splits = problem.splits()  # before anything is written
    for needed in ("train", "dev"):
        if needed not in splits:
            raise DataError(f"The problem {problem.name!r} has no split {needed!r}, only {', '.join(splits)}.")
    if vocabularies is not None:
        problem.codec.check_vocabularies(problem.name, *vocabularies)
        _check_line_breaks(problem, vocabularies)
        _check_labels(problem, vocabularies[0])
    check_folder("data_dir", os.fspath(data_dir))
    folder.parent.mkdir(parents=True, exist_ok=True)
    with file_lock(folder):
        # Another process may have made it while this one waited.
        store = None if force else _open_if_same(problem, folder, vocabularies, progress, known, again)
        if store is not None:
            return store
        if _is_there(folder):
            open_store(folder)  # raises DataError if it is damaged
        parts = Parts(folder.with_name(f".{folder.name}.parts"))
        with StoreWriter(folder) as writer:
            num_workers = num_workers or min(available_cpus(), 16)
            _write(problem, splits, vocabularies, writer, num_workers, progress, beam, parts)
        parts.remove()
    return open_store(folder)


def _check_arguments(problem: Problem, num_workers: int | None) -> None:
    if not problem.name:
        raise UsageError(f"{type(problem).__name__} has no name; decorate it with @register_problem.")
    if problem.without_data:
        raise UsageError(problem.without_data)
    check_codec(problem)
    if num_workers is not None and num_workers < 1:
        raise UsageError(f"--num_workers={num_workers} must be at least 1.")


def _check_line_breaks(problem: Problem, vocabularies: Vocabularies) -> None:
    for side, vocabulary in zip(SIDES, vocabularies, strict=True):
        if problem.keeps_line_breaks and not vocabulary.keeps_line_breaks:
            raise UsageError(
                f"--line_breaks={problem.line_breaks}: the given vocabulary of the {side} has no piece for a line "
                "break. Give that of a run that was trained with it, or leave --vocabulary out."
            )


def _check_labels(problem: Problem, source: AnyVocabulary) -> None:
    """Raises UsageError if the problem's labels are no pieces of the vocabulary, or it has labels and the text none."""
    if missing := [label for label in problem.labels if label not in source.labels]:
        there = f"only {', '.join(source.labels)}" if source.labels else "no labels of target languages"
        raise UsageError(
            f"The given vocabulary of the source has {there}, but {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} needed. Name the languages as its labels do, or leave "
            f"--vocabulary out.{did_you_mean(missing[0], source.labels)}"
        )
    if not source.labels or problem.labels:
        return
    first = next((text for text, _ in problem.samples("train") if text.strip()), "")
    if not split_label(first, source.labels)[0]:
        raise UsageError(
            f"The given vocabulary is of a model with several target languages, and {first[:60]!r} of the training "
            f"text does not begin with one of its labels, {', '.join(source.labels)}. text2text writes the label "
            "of --languages=SOURCE-TARGET with --problem_options=labelled=true; the target's code must be that of a "
            "label. Or write labels into the source files."
        )


def _is_there(folder: Path) -> bool:
    """Whether there is a store, and not nothing or an empty folder; DataError for anything else, which is kept."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return False
    if not (folder / MANIFEST).exists():
        raise DataError(
            f"{folder} holds no prepared data (no {MANIFEST}), so it is not replaced. Give another --data_dir, or move "
            "the folder."
        )
    return True


def _open_if_same(
    problem: Problem,
    folder: Path,
    vocabularies: Vocabularies | None,
    progress: OnPairs,
    known: str | None,
    again: bool = False,
) -> Store | None:
    """Opens the store if it fits; None if there is no store, or if it does not fit and `again` is set."""
    if not _is_there(folder):
        return None
    store = open_store(folder)
    settings = identity.find_setting_changes(store, problem, vocabularies)
    changes = settings or identity.find_data_changes(store, problem, progress, trained=store.checksum == known)
    if not changes:
        return store
    lines = [*changes[:_SHOWN], *([f"  and {len(changes) - _SHOWN} more"] if changes[_SHOWN:] else [])]
    differs = "\n".join([f"{folder} was prepared {'with other settings' if settings else 'from other data'}:", *lines])
    if again:
        _log.info("%s\nIt is prepared again.", differs)
        return None
    old = "settings" if settings else "data"
    advice = f"Give another --data_dir, or go back to the old {old}; --prepare_again prepares it again."
    raise (UsageError if settings else DataError)(f"{differs}\n{advice}")


def _write(
    problem: Problem,
    splits: tuple[str, ...],
    given: Vocabularies | None,
    writer: StoreWriter,
    num_workers: int,
    progress: OnPairs,
    beam: Beam | None,
    parts: Parts,
) -> None:
    # Before the text is read: a file that changes meanwhile counts as changed.
    origin = identity.find_origin(problem)
    synthetic = find_provenance((origin.files or {}).get("train", []))
    # The small splits first: a fault in them shows before the long work on train.
    counts = {split: counts_of(problem) for split in splits}
    small = {split: list(read_pairs(problem, split, counts[split])) for split in splits if split != "train"}
    for split, pairs in small.items():
        _write_text(split, pairs, writer, as_json=problem.keeps_line_breaks)
    overlap = Overlap(small)
    ranges = ranges_of(problem)
    train: RangeText | TrainingText
    if not ranges:
        train = TrainingText(problem, progress, overlap, writer.aside)
    elif beam is None:
        train = RangeText(problem, ranges, progress, overlap, num_workers, writer.aside)
    else:
        sums = {split: hash_text(pairs) for split, pairs in small.items()}
        key = checksum(local_version(), identity.data_settings(problem, given), sums)
        train = beam_text.BeamText(problem, ranges, progress, overlap, beam, parts, key)
    vocabularies = _train_vocabularies(problem, train) if given is None else given
    files = by_file(*vocabularies, names=("vocabulary", *SIDES))
    for name, vocabulary in files.items():
        writer.file(name).write(vocabulary.data)
    facts: dict[str, dict[str, Any]] = {}
    learner = problem.make_learner()
    for split in splits:
        if split in small:
            chunks = encode_pairs(small[split], vocabularies, num_workers=num_workers)
        elif isinstance(train, RangeText):
            chunks = train.encode(vocabularies)
        else:
            text = learner.watch(overlap.watch(train.read()))
            if problem.weighted:
                text = keep_weights(text, writer.file(WEIGHTS).write)
            if beam is None:
                chunks = encode_pairs(text, vocabularies, num_workers=num_workers)
            else:
                chunks = beam_text.encode_pairs(text, vocabularies, beam, parts)
        facts[split], unknown = _write_ids(problem, split, chunks, vocabularies, writer, progress)
        facts[split]["left_out"] = dict(problem.left_out.get(split, {}))
        if split in small:
            facts[split] |= {"text": True, "dropped": 0, **counts[split].facts()}
            facts[split]["text_sha256"] = hash_text(small[split])
        else:
            facts[split] |= {"text": False, **train.facts()}
            counts[split] = train.counts
        counts[split].unknown = unknown
    text_counts.log_counts(counts, vocabularies, "markup" in problem.cleaning, functools.partial(find_place, problem))
    for split, pairs in small.items():
        facts[split]["in_train"] = in_train = overlap.facts(split)
        if line := overlap_line(split, in_train, len(pairs)):
            hint = " --drop_overlap leaves such pairs out of train." if in_train["pairs"] else ""
            _log.info("%s%s", line, hint)
    if problem.drop_overlap:
        number = facts["train"]["overlapping"]
        _log.info("--drop_overlap leaves out %s training pairs that are also in dev or test.", f"{number:,}")
    if given is not None:
        problem.codec.check_unknown(problem.name, facts["train"]["target"]["unknown"])
    for name, learned in learner.files(small).items():
        writer.file(name).write(learned.encode())
    writer.finish(
        {
            "made_by": f"t2t-lite {local_version()}",
            "settings": identity.data_settings(problem, given),
            "vocabularies": dict(zip(SIDES, [*files] * (2 // len(files)), strict=True)),
            "splits": facts,
            **({"synthetic": synthetic} if synthetic else {}),
        },
        origin.to_json(),
    )


def _write_text(split: str, pairs: Iterable[Pair], writer: StoreWriter, *, as_json: bool) -> None:
    files = [writer.file(f"{split}.{side}.txt") for side in SIDES]
    for pair in pairs:
        for file, text in zip(files, pair, strict=True):
            line = json.dumps(text, ensure_ascii=False) if as_json else text
            file.write(line.encode() + b"\n")


def _train_vocabularies(problem: Problem, text: TrainingFacts) -> Vocabularies:
    recipes = _vocabulary_recipes(problem)
    found = text.train(recipes)
    for vocabulary, (_, options) in zip(found, recipes, strict=True):
        warn_of_few_pieces(vocabulary, options["size"], options["kind"])
    return found[0], found[-1]


def _vocabulary_recipes(problem: Problem) -> list[VocabularyRecipe]:
    """Returns how the vocabularies of a problem are trained: that of both sides, or those of source and target."""

    def recipe(sides: slice, kind: str, labels: Sequence[str]) -> VocabularyRecipe:
        options = {
            "size": problem.vocab_size,
            "kind": kind,
            "character_coverage": problem.character_coverage,
            "whole": whole if kind != "word" else (),
            "labels": labels,
            "byte_fallback": problem.byte_fallback,
            "seed": VOCABULARY_SEED,
        }
        return VocabularyRecipe(sides, options)

    whole = [*(["\n"] if problem.keeps_line_breaks else []), *problem.keep_whole]
    if problem.shared_vocab:
        return [recipe(slice(None), problem.vocab_type, problem.labels)]
    target_type = problem.codec.target_vocab_type(problem.vocab_type)
    return [recipe(slice(0, 1), problem.vocab_type, problem.labels), recipe(slice(1, 2), target_type, ())]


def _write_ids(
    problem: Problem,
    split: str,
    chunks: Iterable[tuple[Side, ...]],
    vocabularies: Vocabularies,
    writer: StoreWriter,
    progress: OnPairs,
) -> tuple[dict[str, Any], tuple[UnknownPieces, ...]]:
    sides = [
        SequenceWriter(writer, f"{split}.{side}", vocabulary.size)
        for side, vocabulary in zip(SIDES, vocabularies, strict=True)
    ]
    aligned = problem.aligned and split == "train"
    links = SequenceWriter(writer, f"{split}.{ALIGNMENT}", MOST_PLACES) if aligned else None
    done = 0
    for chunk in chunks:
        for side, encoded in zip([*sides, *([links] if links else [])], chunk, strict=True):
            side.write(encoded)
        done += len(chunk[0].lengths)
        progress(done, split)
    if not done:
        advice = " samples must give its pairs at each call: make an iterator in it, not before."
        raise DataError(
            f"The split {split!r} of {problem.name!r} has no pairs{' with text' if split == 'train' else ''}."
            + (advice if problem.source_files(split) is None else "")
        )
    facts = {"pairs": done, **{side: file.facts() for side, file in zip(SIDES, sides, strict=True)}}
    if links:
        facts[ALIGNMENT] = links.facts_of_links()
        if links.lost:
            _log.warning(
                "%s of %s training pairs are used without their alignment: the vocabulary reads other words in them "
                "than spaces separate.",
                *(f"{number:,}" for number in (links.lost, done)),
            )
    return facts, tuple(file.unknown for file in sides)
