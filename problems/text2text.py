"""text2text: folders of your own text files, no code."""

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from t2t_lite.data.alignment_files import align_pairs, find_beside
from t2t_lite.data.cleaning import find_fault
from t2t_lite.data.corpora import Corpus, format_corpora, format_languages, parse_corpora, parse_pairs
from t2t_lite.data.corpus_files import Languages, OnDamaged, Part, describe_missing, find_files, read_part
from t2t_lite.data.held_out import HeldOut
from t2t_lite.data.sources import read_lines
from t2t_lite.data.weight_files import weigh_pairs
from t2t_lite.errors import DataError, UsageError
from t2t_lite.metrics.names import METRICS, canonical
from t2t_lite.problem import (
    KEEP_WHOLE_FLAG,
    LINE_BREAKS,
    SPLITS,
    VOCAB_TYPES,
    AlignedPair,
    LineFiles,
    Problem,
    WeightedPair,
    check_choice,
    check_cleaning,
    check_vocab_size,
    read_clean,
)
from t2t_lite.registry import register_problem
from t2t_lite.remote.mirror import fetch_url
from t2t_lite.text.labels import label_of, split_label
from t2t_lite.text.vocabulary_training import can_be_whole

# SentencePiece's own usual share of characters with a piece; with 1, training would have none that is written in bytes.
_COVERAGE_OF_BYTES = 0.9995

_log = logging.getLogger("t2t_lite")

_Files = tuple[Part, Languages]  # and in which languages they are


@register_problem
class Text2text(Problem):
    """Your own folder: train.en and train.de, dev.en and dev.de, perhaps test.en and test.de; or train.tsv, ...

    docs/data.md has the names and formats that are understood. Only `splits`, `samples` and `source_files` read folders
    (the constructor looks at them if `languages` is ambiguous), so a trained run can be opened without them.

    Args:
        source_dir: the folder; or several with weights, as A,B:2. Training uses the data of all folders, each pair as
            many times as its folder's weight says. dev and test come from the first folder that has them.
        languages: source and target, as in the endings of the files' names, such as "en-de", "en-pt-BR" or "en:pt-BR";
            or several pairs, such as "en-de,en-fr". The files of a pair are in a folder en-de of `source_dir`, if there
            is one, and else in `source_dir`.
        labelled: whether sources begin with the label of the target language; None: if there are several of them.
        dev_lines: if there is no dev set, this many training pairs are held out as one; with `clean`, of those that
            cleaning keeps.
        clean_max_words, clean_max_ratio: limits of `clean`, as in Problem.
        bleu_tokenize, bleu_effective_order: BLEU's options, as in Problem.
        vocab_size, vocab_type, shared_vocab, metric, clean: as in Problem; vocab_size is 8000 unless given.
        line_breaks: as in Problem.
        keep_whole: as in Problem; a file with one on each line, or a list with commas between.
        alignments: how the names of the files end that have the alignments of the training text, beside it, such as
            "align" for train.align beside train.en and train.de.
        sequence_weights: the same of files with a weight for each training pair, such as "weight" for train.weight.
        byte_fallback: as in Problem; then only characters that make up 99.95% of the text have pieces of their own.

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
        byte_fallback: bool = False,
        labelled: bool | None = None,
        sequence_weights: str | None = None,
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
        self._pairs = parse_pairs(languages, self._corpora[0].folder)
        sources, targets = ([*dict.fromkeys(side)] for side in zip(*self._pairs, strict=True))
        self.source_language, self.target_language = "+".join(sources), "+".join(targets)
        self._labelled = labelled
        self.labels = tuple(map(label_of, targets)) if labelled or (labelled is None and len(targets) > 1) else ()
        check_cleaning(self.cleaning, clean_max_words, clean_max_ratio)
        self.keep_whole = _read_keep_whole(keep_whole, self.labels)
        self.alignments, self.aligned = alignments, alignments is not None
        self.sequence_weights, self.weighted = sequence_weights, sequence_weights is not None
        if self.aligned and self.weighted:
            raise UsageError(
                f"--alignments={alignments} and --sequence_weights={sequence_weights} exclude each other: a pair has "
                "an alignment or a weight. Leave one of them out."
            )
        if byte_fallback:
            self.byte_fallback, self.character_coverage = True, _COVERAGE_OF_BYTES
        self.dev_lines = dev_lines
        self._held_out: HeldOut | None = None
        self.left_out: dict[str, dict[str, int]] = {}
        self._said: set[str] = set()
        self._at: tuple[_Files, int] | None = None  # what was read last, and the number of its last pair
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
            for files in self._parts(split):
                yield from self._read(files, split)

    def line_files(self) -> list[LineFiles] | None:
        """The training files, unless a pair depends on more than its two lines, or there are tables."""
        if self.dev_lines is not None or self.aligned or self.weighted:
            return None
        parts = [part for corpus in self._corpora for part in self._train_parts(corpus) * corpus.weight]
        if any(len(files) == 1 for files, _ in parts):
            return None
        return [
            LineFiles((source, target), languages, self._label(languages), (self._name(source), self._name(target)))
            for (source, target), languages in parts
        ]

    def tell_pairs(self, numbers: Sequence[int]) -> None:
        of_parts = iter(numbers)
        for corpus in self._corpora:
            counts: Counter[Languages] = Counter()
            for _, languages in self._train_parts(corpus) * corpus.weight:
                counts[languages] += next(of_parts)
            self._say_pairs(corpus, counts)

    def place(self, side: int) -> str:
        """As in Problem: the file, and the number of the line, or of the pair in a table."""
        if self._at is None:
            return ""
        (part, _), number = self._at
        path, what = (part[0], "pair") if len(part) == 1 else (part[side], "line")
        return f"{self._name(path)}, {what} {number:,}"

    def _name(self, path: Path) -> str:
        return f"{path.parent.name}/{path.name}" if len(self._pairs) > 1 else path.name

    def _label(self, languages: Languages) -> str:
        return label_of(languages[1]) if self.labels else ""

    def pair_languages(self) -> Languages:
        return self._pairs[0] if self._at is None else self._at[0][1]

    @property
    def several_languages(self) -> bool:
        return len(self._pairs) > 1

    def splits(self) -> tuple[str, ...]:
        """The splits that the folders have; DataError unless train and dev are among them."""
        for corpus in self._corpora:
            self._train_parts(corpus)
        for languages in self._pairs:
            if not any(self._find(corpus, "train", languages) for corpus in self._corpora):
                raise describe_missing(self._folder(self._corpora[0], languages), "train", languages)
        dev, test = ({pair: self._first_with(split, pair) for pair in self._pairs} for split in ("dev", "test"))
        for languages, folder in dev.items():
            if self.dev_lines is None and folder is None:
                raise describe_missing(self._folder(self._corpora[0], languages), "dev", languages)
            if self.dev_lines is not None and folder is not None:
                names = ", ".join(path.name for part in find_files(folder, "dev", languages) for path in part)
                raise DataError(  # not UsageError: the files may have come after the run began
                    f"{folder} has a dev set ({names}), so --dev_lines={self.dev_lines} has nothing to do. Leave one "
                    "of the two out."
                )
        if len(self._corpora) > 1:
            for split, of_pairs in {"dev": dev, "test": test}.items():
                for folder in filter(None, dict.fromkeys(of_pairs.values())):
                    self._say(f"The {split} set is that of {folder}.")
        if lacking := [
            format_languages(pair) for pair, folder in test.items() if folder is None and any(test.values())
        ]:
            self._say(f"The test set has no pairs of {', '.join(lacking)}.")
        return SPLITS if any(test.values()) else SPLITS[:2]

    def source_files(self, split: str) -> list[Path]:
        """The files of a split; DataError as `samples`."""
        if split == "train" or (split == "dev" and self.dev_lines is not None):
            files = [part for corpus in self._corpora for part in self._train_parts(corpus) * corpus.weight]
            return [
                path for part in files for path in (*part[0], *self._find_alignments(part), *self._find_weights(part))
            ]
        return [path for part, _ in self._parts(split) for path in part]

    def options(self) -> dict[str, Any]:
        """The constructor's arguments, with an absolute source_dir."""
        options = {
            "source_dir": format_corpora(self._corpora),
            "languages": ",".join(map(format_languages, self._pairs)),
            "labelled": self._labelled,
            "vocab_size": self.vocab_size,
            "vocab_type": self.vocab_type,
            "shared_vocab": self.shared_vocab,
            "metric": self.metric,
            "clean": self.clean or None,
            "keep_whole": list(self.keep_whole) or None,
            "alignments": self.alignments,
            "sequence_weights": self.sequence_weights,
            "byte_fallback": self.byte_fallback or None,
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
        text = split_label(pair[0], self.labels)[1], pair[1]
        limits = self.clean_max_words, self.clean_max_ratio
        return find_fault(text, *limits, self.pair_languages(), self.cleaning) is None

    def _read(self, files: _Files, split: str) -> Iterator[tuple[str, str]]:
        """Yields the pairs of a part; a source with text begins with its label, if there are labels."""
        part, languages = files
        label = self._label(languages)
        pairs = read_part(part, languages, self._leave_out(split))
        for path in self._find_alignments(files) if split == "train" else ():
            pairs = align_pairs(pairs, path)
        for path in self._find_weights(files) if split == "train" else ():
            pairs = weigh_pairs(pairs, path)
        for number, pair in enumerate(pairs, start=1):
            self._at = files, number
            yield _put_label(pair, label) if label and pair[0].strip() else pair

    def _find_alignments(self, files: _Files) -> list[Path]:
        """The file with the alignments of a part of the training data; none unless `alignments` asks for it."""
        if self.alignments is None:
            return []
        return [find_beside(*files, f"--alignments={self.alignments}", "a line of links i-j")]

    def _find_weights(self, files: _Files) -> list[Path]:
        """The file with the weights of a part of the training data; none unless `sequence_weights` asks for it."""
        if self.sequence_weights is None:
            return []
        return [find_beside(*files, f"--sequence_weights={self.sequence_weights}", "a line with a number")]

    def _leave_out(self, split: str) -> OnDamaged | None:
        """What is done about damaged rows: with `clean` they are counted, else they are an error."""

        def leave_out(sentence: str, count: int) -> None:
            self._say(sentence)
            self.left_out[split] = {"damaged rows": self.left_out.get(split, {}).get("damaged rows", 0) + count}

        return leave_out if self.clean else None

    def _training_pairs(self) -> Iterator[tuple[str, str]]:
        self.left_out.pop("train", None)
        for corpus in self._corpora:
            counts: Counter[Languages] = Counter()
            for _ in range(corpus.weight):
                for files in self._train_parts(corpus):
                    for pair in self._read(files, "train"):
                        counts[files[1]] += 1
                        yield pair
            self._say_pairs(corpus, counts)

    def _say_pairs(self, corpus: Corpus, counts: Counter[Languages]) -> None:
        times = f" {corpus.weight} times" if corpus.weight > 1 else ""
        if len(self._pairs) > 1:
            for languages, count in counts.items():
                pairs = f"{count // corpus.weight:,} training pairs of {format_languages(languages)}{times}"
                self._say(f"{corpus.folder}: {pairs}.")
        elif len(self._corpora) > 1 or times:
            self._say(f"{corpus.folder}: {counts.total() // corpus.weight:,} training pairs{times}.")

    def _train_parts(self, corpus: Corpus) -> list[_Files]:
        """The training files of a corpus, which need not have each pair of languages."""
        files = [(part, pair) for pair in self._pairs for part in self._find(corpus, "train", pair)]
        if not files:
            raise describe_missing(self._folder(corpus, self._pairs[0]), "train", self._pairs[0])
        return files

    def _parts(self, split: str) -> list[_Files]:
        """The files of dev or test."""
        folders = {pair: self._first_with(split, pair) for pair in self._pairs}
        if not any(folders.values()):
            raise describe_missing(self._folder(self._corpora[0], self._pairs[0]), split, self._pairs[0])
        return [(part, pair) for pair, folder in folders.items() if folder for part in find_files(folder, split, pair)]

    def _first_with(self, split: str, languages: Languages) -> str | None:
        """The folder of the first corpus that has the split for these languages."""
        return next((self._folder(c, languages) for c in self._corpora if self._find(c, split, languages)), None)

    def _find(self, corpus: Corpus, split: str, languages: Languages) -> list[Part]:
        return find_files(self._folder(corpus, languages), split, languages, self._say)

    def _folder(self, corpus: Corpus, languages: Languages) -> str:
        """Where the files of a pair of languages are: with several pairs, a folder such as en-de, if there is one."""
        folder = fetch_url(corpus.folder)
        own = Path(folder, "-".join(languages))
        return str(own) if len(self._pairs) > 1 and own.is_dir() else folder

    def _say(self, message: str) -> None:
        """Says something once, however often the text is read."""
        if message not in self._said:
            self._said.add(message)
            _log.info("%s", message)


def _put_label(pair: tuple[str, str], label: str) -> tuple[str, str]:
    """A pair with a label before its source, where it is the first word."""
    source = f"{label} {pair[0]}"
    if isinstance(pair, AlignedPair):
        return AlignedPair(source, pair[1], [(i + 1, j) for i, j in pair.links])
    if isinstance(pair, WeightedPair):
        return WeightedPair(source, pair[1], pair.weight)
    return source, pair[1]


def _read_keep_whole(given: str | Sequence[str] | None, labels: Sequence[str]) -> tuple[str, ...]:
    """Returns the texts of --keep_whole, each once: of a file with one on each line, or of a list, also with commas."""
    texts = given or ()
    if isinstance(texts, str):
        path = Path(texts).expanduser()
        texts = list(read_lines(path)) if path.is_file() else texts.split(",")
    found = tuple(dict.fromkeys(text for text in texts if text.strip()))
    for text in found:
        if text in labels:
            raise UsageError(f"{KEEP_WHOLE_FLAG}: {text!r} is the label of a target language, a piece already.")
        if not can_be_whole(text):
            raise UsageError(
                f"{KEEP_WHOLE_FLAG}: {text!r} cannot be a piece of a vocabulary: it has white space in it, a mark of "
                "SentencePiece's own, or is the name of one of its special pieces. Give a file with one text on each "
                "line, or a list such as %s,<b>,&amp;"
            )
    return found
