"""text2text: folders of your own text files, no code."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from t2t_lite.data.alignment_files import align_pairs, find_alignments
from t2t_lite.data.cleaning import find_fault
from t2t_lite.data.corpora import Corpus, format_corpora, format_languages, parse_corpora, parse_languages
from t2t_lite.data.corpus_files import OnDamaged, Part, describe_missing, find_files, read_part
from t2t_lite.data.held_out import HeldOut
from t2t_lite.data.sources import read_lines
from t2t_lite.errors import DataError, UsageError
from t2t_lite.metrics.names import METRICS, canonical
from t2t_lite.problem import (
    LINE_BREAKS,
    SPLITS,
    VOCAB_TYPES,
    Problem,
    check_choice,
    check_cleaning,
    check_vocab_size,
    read_clean,
)
from t2t_lite.registry import register_problem
from t2t_lite.text.vocabulary_training import can_be_whole

_log = logging.getLogger("t2t_lite")


@register_problem
class Text2text(Problem):
    """Your own folder: train.en and train.de, dev.en and dev.de, perhaps test.en and test.de; or train.tsv, ...

    docs/data.md has the names and formats that are understood. Only `splits`, `samples` and `source_files` read folders
    (the constructor looks at them if `languages` is ambiguous), so a trained run can be opened without them.

    Args:
        source_dir: the folder; or several with weights, as A,B:2. Training uses the data of all folders, each pair as
            many times as its folder's weight says. dev and test come from the first folder that has them.
        languages: source and target, as in the endings of the files' names, such as "en-de", "en-pt-BR" or "en:pt-BR".
        dev_lines: if there is no dev set, this many training pairs are held out as one; with `clean`, of those that
            cleaning keeps.
        clean_max_words, clean_max_ratio: limits of `clean`, as in Problem.
        bleu_tokenize, bleu_effective_order: BLEU's options, as in Problem.
        vocab_size, vocab_type, shared_vocab, metric, clean: as in Problem; vocab_size is 8000 unless given.
        line_breaks: as in Problem.
        keep_whole: as in Problem; a file with one on each line, or a list with commas between.
        alignments: how the names of the files end that have the alignments of the training text, beside it, such as
            "align" for train.align beside train.en and train.de.

    Raises:
        UsageError: an option that cannot be right.
    """

    vocab_size = 8000

    def __init__(
        self,
        source_dir: str,
        languages: str,
        vocab_size: int | None = None,
        vocab_type: str | None = None,
        shared_vocab: bool | None = None,
        metric: str | None = None,
        clean: bool | str | Sequence[str] = False,
        dev_lines: int | None = None,
        clean_max_words: int | None = None,
        clean_max_ratio: float | None = None,
        bleu_tokenize: str | None = None,
        bleu_effective_order: bool = False,
        line_breaks: str | None = None,
        keep_whole: str | Sequence[str] | None = None,
        alignments: str | None = None,
    ) -> None:
        check_vocab_size(vocab_size)
        check_choice("vocab_type", vocab_type, VOCAB_TYPES)
        check_choice("line_breaks", line_breaks, LINE_BREAKS)
        if metric is not None:
            METRICS.check(canonical(metric))
        if dev_lines is not None and dev_lines < 1:
            raise UsageError(f"--dev_lines={dev_lines} must be at least 1; it counts the pairs that are held out.")
        self._corpora = parse_corpora(source_dir)
        self.clean = read_clean(clean)
        if "duplicate" in self.cleaning and any(corpus.weight > 1 for corpus in self._corpora):
            raise UsageError(
                f"--source_dir={source_dir} takes pairs several times, but --clean leaves out all but the first. Leave "
                "the weights or --clean out, or name other reasons than duplicate: --clean=REASON,REASON."
            )
        self._languages = parse_languages(languages, self._corpora[0].folder)
        self.source_language, self.target_language = self._languages
        check_cleaning(self.cleaning, clean_max_words, clean_max_ratio)
        self.keep_whole = _read_keep_whole(keep_whole)
        self.alignments, self.aligned = alignments, alignments is not None
        self.dev_lines = dev_lines
        self._held_out: HeldOut | None = None
        self.left_out: dict[str, dict[str, int]] = {}
        self._said: set[str] = set()
        self._at: tuple[Part, int] | None = None  # the part that was read last, and the number of its last pair
        given = {"vocab_size": vocab_size, "vocab_type": vocab_type, "shared_vocab": shared_vocab}
        given["metric"] = None if metric is None else canonical(metric)
        limits = {"clean_max_words": clean_max_words, "clean_max_ratio": clean_max_ratio}
        bleu_options = {"bleu_tokenize": bleu_tokenize, "bleu_effective_order": bleu_effective_order or None}
        self._added = {**limits, **bleu_options, "line_breaks": line_breaks}
        for name, value in (given | self._added).items():
            if value is not None:
                setattr(self, name, value)

    def samples(self, split: str) -> Iterator[tuple[str, str]]:
        """Yields the pairs of a split; DataError where files are missing, ambiguous or faulty."""
        held_out = self._choose_held_out() if split != "test" else None
        if split == "train":
            for pair in self._training_pairs():
                if held_out is None or pair not in held_out:
                    yield pair
        elif held_out is not None and split == "dev":
            self._at = None
            yield from held_out.pairs
        else:
            self.left_out.pop(split, None)
            for part in self._parts(split):
                yield from self._read(part, split)

    def place(self, side: int) -> str:
        """As in Problem: the file, and the number of the line, or of the pair in a table."""
        if self._at is None:
            return ""
        part, number = self._at
        return f"{part[0].name}, pair {number:,}" if len(part) == 1 else f"{part[side].name}, line {number:,}"

    def splits(self) -> tuple[str, ...]:
        """The splits that the folders have; DataError unless train and dev are among them."""
        for corpus in self._corpora:
            self._train_parts(corpus)
        dev, test = (self._first_with(split) for split in ("dev", "test"))
        if self.dev_lines is None and dev is None:
            raise describe_missing(self._corpora[0].folder, "dev", self._languages)
        if self.dev_lines is not None and dev is not None:
            names = ", ".join(path.name for part in self._parts("dev") for path in part)
            raise DataError(  # about the files, as they may have come after a training, which goes on
                f"{dev.folder} has a dev set ({names}), so --dev_lines={self.dev_lines} has nothing to do. Leave one "
                "of the two out."
            )
        if len(self._corpora) > 1:
            for split, first in {"dev": dev, "test": test}.items():
                if first is not None:
                    self._say(f"The {split} set is that of {first.folder}.")
        return SPLITS if test is not None else SPLITS[:2]

    def source_files(self, split: str) -> list[Path]:
        """The files of a split; DataError as `samples`."""
        if split == "train" or (split == "dev" and self.dev_lines is not None):
            parts = [part for corpus in self._corpora for part in self._train_parts(corpus) * corpus.weight]
            return [path for part in parts for path in (*part, *self._find_alignments(part))]
        return [path for part in self._parts(split) for path in part]

    def options(self) -> dict[str, Any]:
        """The constructor's arguments, with an absolute source_dir."""
        options = {
            "source_dir": format_corpora(self._corpora),
            "languages": format_languages(self._languages),
            "vocab_size": self.vocab_size,
            "vocab_type": self.vocab_type,
            "shared_vocab": self.shared_vocab,
            "metric": self.metric,
            "clean": self.clean or None,
            "keep_whole": list(self.keep_whole) or None,
            "alignments": self.alignments,
            "dev_lines": self.dev_lines,
            **self._added,
        }
        return {name: value for name, value in options.items() if value is not None}

    def settings(self) -> dict[str, Any]:
        """As in Problem; the options hold only those that change the data and have no entry of their own."""
        weights = [corpus.weight for corpus in self._corpora]
        return {
            **super().settings(),
            "options": {
                **({"dev_lines": self.dev_lines} if self.dev_lines is not None else {}),
                **({"weights": weights} if weights != [1] else {}),
            },
        }

    def _choose_held_out(self) -> HeldOut | None:
        """The pairs that are the dev set, chosen when they are first asked for; None without dev_lines."""
        if self.dev_lines is not None and self._held_out is None:
            self._held_out = HeldOut(self._training_pairs(), self.dev_lines, self._is_clean if self.clean else None)
            self._say(f"{self.dev_lines:,} different pairs are held out of the training data as the dev set.")
        return self._held_out

    def _is_clean(self, pair: tuple[str, str]) -> bool:
        return find_fault(pair, self.clean_max_words, self.clean_max_ratio, self._languages, self.cleaning) is None

    def _read(self, part: Part, split: str) -> Iterator[tuple[str, str]]:
        pairs = read_part(part, self._languages, self._leave_out(split))
        for path in self._find_alignments(part) if split == "train" else ():
            pairs = align_pairs(pairs, path)
        for number, pair in enumerate(pairs, start=1):
            self._at = part, number
            yield pair

    def _find_alignments(self, part: Part) -> list[Path]:
        """The file with the alignments of a part of the training data; none unless `alignments` asks for it."""
        return [] if self.alignments is None else [find_alignments(part, self._languages, self.alignments)]

    def _leave_out(self, split: str) -> OnDamaged | None:
        """What is done about damaged rows: with `clean` they are counted, else they are an error."""

        def leave_out(sentence: str, count: int) -> None:
            self._say(sentence)
            self.left_out[split] = {"damaged rows": self.left_out.get(split, {}).get("damaged rows", 0) + count}

        return leave_out if self.clean else None

    def _training_pairs(self) -> Iterator[tuple[str, str]]:
        self.left_out.pop("train", None)
        for corpus in self._corpora:
            count = 0
            for _ in range(corpus.weight):
                for part in self._train_parts(corpus):
                    for pair in self._read(part, "train"):
                        count += 1
                        yield pair
            if len(self._corpora) > 1 or corpus.weight > 1:
                times = f" {corpus.weight} times" if corpus.weight > 1 else ""
                self._say(f"{corpus.folder}: {count // corpus.weight:,} training pairs{times}.")

    def _train_parts(self, corpus: Corpus) -> list[Part]:
        parts = find_files(corpus.folder, "train", self._languages, self._say)
        if not parts:
            raise describe_missing(corpus.folder, "train", self._languages)
        return parts

    def _parts(self, split: str) -> list[Part]:
        """The files of dev or test."""
        corpus = self._first_with(split)
        if corpus is None:
            raise describe_missing(self._corpora[0].folder, split, self._languages)
        return find_files(corpus.folder, split, self._languages)

    def _first_with(self, split: str) -> Corpus | None:
        return next((c for c in self._corpora if find_files(c.folder, split, self._languages, self._say)), None)

    def _say(self, message: str) -> None:
        """Says something once, however often the text is read."""
        if message not in self._said:
            self._said.add(message)
            _log.info("%s", message)


def _read_keep_whole(given: str | Sequence[str] | None) -> tuple[str, ...]:
    """Returns the texts of --keep_whole, each once: of a file with one on each line, or of a list, also with commas."""
    texts = given or ()
    if isinstance(texts, str):
        path = Path(texts).expanduser()
        texts = list(read_lines(path)) if path.is_file() else texts.split(",")
    found = tuple(dict.fromkeys(text for text in texts if text.strip()))
    for text in found:
        if not can_be_whole(text):
            raise UsageError(
                f"--keep_whole: {text!r} cannot be a piece of a vocabulary: it has white space in it, a mark of "
                "SentencePiece's own, or is the name of one of its special pieces. Give a file with one text on each "
                "line, or a list such as %s,<b>,&amp;"
            )
    return found
