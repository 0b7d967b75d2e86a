"""Problem: what a task declares (its text, its vocabulary, its metric); nothing about models or training.

A problem of your own:

    from t2t_lite import problem, registry

    @registry.register_problem
    class Rhymes(problem.Problem):
        \"\"\"Lines of verse and their rhymes.\"\"\"

        vocab_size = 4000

        def samples(self, split):
            for line, rhyme in my_pairs(split):
                yield line, rhyme
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Literal

from t2t_lite.errors import UsageError, did_you_mean
from t2t_lite.metrics.score import CorpusMetric
from t2t_lite.name_table import full_name
from t2t_lite.text.codec import Codec, Learner
from t2t_lite.text.codecs import codec_of
from t2t_lite.text.labels import language_of, target_of
from t2t_lite.text.pairs import pairs_of as pairs_of

SPLITS = ("train", "dev", "test")
VocabType = Literal["bpe", "unigram", "char"]
VOCAB_TYPES = typing.get_args(VocabType)
# Settings that say how a vocabulary is trained; they mean nothing where one is given.
VOCABULARY_OPTIONS = ("vocab_size", "vocab_type", "shared_vocab", "character_coverage", "keep_whole", "byte_fallback")
KEEP_WHOLE_FLAG = "--keep_whole (--symbols)"  # both names: a problem does not know which one was given
# Options that each problem takes besides those of its constructor.
COMMON_OPTIONS = ("drop_overlap",)
# Why cleaning leaves out a training pair, as t2t_lite/data/cleaning.py says; a pair is counted under the first.
CLEANING_REASONS = ("control", "markup", "length", "ratio", "copy", "duplicate")
LINE_BREAKS = ("space", "symbol")
_LIMITS = {"clean_max_words": "length", "clean_max_ratio": "ratio"}  # and the reason that each is a limit of
_MOST_PIECES = 10_000_000
LARGEST_WEIGHT = 1e6  # of a training pair; float32 adds up those of a batch


class AlignedPair(tuple[str, str]):
    """A training pair (source, target) with its alignment.

    links: (i, j) for the i-th word of the source and the j-th of the target, counted from 0. Words are what spaces and
        tabs separate.
    """

    links: tuple[tuple[int, int], ...]

    def __new__(cls, source: str, target: str, links: Iterable[tuple[int, int]]) -> AlignedPair:
        pair = super().__new__(cls, (source, target))
        pair.links = tuple(links)
        return pair

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (*self, self.links)

    def reversed(self) -> AlignedPair:
        """Returns the pair with source and target swapped."""
        return AlignedPair(self[1], self[0], [(j, i) for i, j in self.links])


class WeightedPair(tuple[str, str]):
    """A training pair (source, target) with its weight, a number from 0 on, by which its target tokens count."""

    weight: float

    def __new__(cls, source: str, target: str, weight: float) -> WeightedPair:
        pair = super().__new__(cls, (source, target))
        pair.weight = weight
        return pair

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (*self, self.weight)

    def reversed(self) -> WeightedPair:
        """Returns the pair with source and target swapped."""
        return WeightedPair(self[1], self[0], self.weight)


@dataclasses.dataclass(frozen=True)
class LineFiles:
    """Two files of lines whose pairs are samples: line N of the one with line N of the other.

    Attributes:
        paths: source and target.
        languages: source and target, as of `Problem.pair_languages`.
        label: with which the sources that have text are given; "" for none.
        names: of the files in messages; None: a message has the number of the pair instead.
    """

    paths: tuple[Path, Path]
    languages: tuple[str, str]
    label: str = ""
    names: tuple[str, str] | None = None

    def reversed(self) -> LineFiles:
        """Returns the files with source and target swapped; those of a problem with labels have no other side."""
        names = None if self.names is None else self.names[::-1]
        return LineFiles(self.paths[::-1], self.languages[::-1], names=names)


class Problem:
    """A task from text to text.

    Class attributes to override:
        source_language, target_language: names of the two sides, such as "en" and "de"; of several, joined by "+".
        labels: labels of target languages, such as ">>de<<" (text/labels.py); each source begins with one. (): none.
        codec: how targets are learned and outputs read: as text, or as trees (text/trees/codec.py).
        vocab_size: pieces per vocabulary, PAD, EOS and UNK included.
        vocab_type: "bpe", "unigram" or "char" (single characters), as SentencePiece trains them. The codec may choose
            another for the targets.
        shared_vocab: one vocabulary for both sides (section 5.1), or one for each.
        character_coverage: share of the characters that get a piece of their own; the rest becomes UNK.
        byte_fallback: whether characters without a piece become pieces of bytes, and not UNK.
        metric: the dev score that picks the best checkpoint: "bleu" (cased sacreBLEU), "bleu_lc" (lowercased),
            "bleu_tok_lc" (text that is tokenised already, lowercased), "chrf", "chrf2" (chrF++), "accuracy" (share of
            outputs that are entirely right), "bleu_paper" (as the paper's authors computed BLEU; target_language must
            be "de", "en" or "fr") or one of your own (registry.register_metric). `make_metric` makes it.
        line_breaks: what a line break in a text becomes: a "space", or a "symbol" of the vocabulary, which outputs have
            as a line break again.
        keep_whole: texts that are pieces of their own wherever they occur, such as "%s" and "<b>".
        clean: whether faulty pairs are left out of the training split, as t2t_lite/data/cleaning.py says; or the
            reasons, of CLEANING_REASONS, for which they are.
        clean_max_words: cleaning's limit on the words of a side.
        bleu_tokenize: BLEU's tokeniser (metrics/bleu.py); None: as sacreBLEU chooses by the target language.
        bleu_effective_order: whether BLEU leaves out the orders of n-grams that no output is long enough for.
        aligned: whether the pairs of the training split are `AlignedPair`s, for training with guided_alignment.
        weighted: whether the pairs of the training split are `WeightedPair`s, and not aligned.
        clean_max_ratio: cleaning's limit on the ratio of words, longer side to shorter side.
        drop_overlap: whether pairs that are also in dev or test are left out of the training split.
        without_data: why there is nothing to prepare, and what to do instead; "": there are data.
        path_options: the options that name files or folders. Prepared data depend on what is in the files, not on where
            they are.

    Attributes:
        left_out: by split, what `samples` left out when it was last read to its end, and how many, such as
            {"dev": {"damaged rows": 2}}.
    """

    name: ClassVar[str] = ""  # set by register_problem
    given_options: Mapping[str, Any] = MappingProxyType({})  # set by registry.problem
    left_out: Mapping[str, Mapping[str, int]] = MappingProxyType({})
    default_hparams: ClassVar[str] = "base"
    source_language: str = "source"
    target_language: str = "target"
    labels: Sequence[str] = ()
    codec: Codec = Codec()
    vocab_size: int = 32000
    vocab_type: VocabType = "bpe"
    shared_vocab: bool = True
    character_coverage: float = 1.0
    byte_fallback: bool = False
    metric: str = "bleu"
    line_breaks: str = "space"
    keep_whole: Sequence[str] = ()
    clean: bool | Sequence[str] = False
    clean_max_words: int = 250
    clean_max_ratio: float = 9.0
    bleu_tokenize: str | None = None
    bleu_effective_order: bool = False
    drop_overlap: bool = False
    aligned: bool = False
    weighted: bool = False
    without_data: str = ""
    path_options: tuple[str, ...] = ("source_dir", "extra_dir", "raw_dir")

    def samples(self, split: str) -> Iterator[tuple[str, str]]:
        """Yields (source, target) pairs of one split: "train", "dev" or "test"; the same ones at each call.

        `pairs_of` gives the pairs of a DataFrame, an Arrow table, a tf.data.Dataset or another iterable.
        """
        raise NotImplementedError(f"{type(self).__name__} must define samples(split).")

    def line_files(self) -> Sequence[LineFiles] | None:
        """The files whose pairs are what `samples("train")` gives, one after the other; None: it gives other pairs.

        Several processes then read them at once, and not `samples`. A class that overrides `samples` and not this is
        read by its `samples`.
        """
        return None

    def tell_pairs(self, numbers: Sequence[int]) -> None:
        """Is told how many pairs each of `line_files` has, for messages that `samples` would write."""

    def place(self, side: int) -> str:
        """Where the pair that `samples` gave last is, for messages, such as "dev.en, line 3"; "" if it is not known.

        Args:
            side: 0 for its source, 1 for its target.
        """
        return ""

    def pair_languages(self) -> tuple[str, str]:
        """Source and target language of the pair that `samples` gave last."""
        return self.source_language, self.target_language

    @property
    def several_languages(self) -> bool:
        """Whether training pairs may be in different languages, which `pair_languages` then tells of each."""
        return type(self).pair_languages is not Problem.pair_languages

    @property
    def cleaning(self) -> tuple[str, ...]:
        """The reasons for which training pairs are left out."""
        return cleaning_reasons(self.clean)

    def check_aligned(self, weight: float) -> None:
        """Raises UsageError if there are no alignments that a loss of this weight could be computed from."""
        if weight and not self.aligned:
            raise UsageError(
                f"guided_alignment={weight:g} needs the alignments of the training text, and {self.name} has none. "
                "Give --problem=text2text --alignments=align, for files such as train.align beside train.en and "
                "train.de."
            )

    @property
    def keeps_line_breaks(self) -> bool:
        return self.line_breaks == "symbol"

    def splits(self) -> tuple[str, ...]:
        """The splits this problem has; "train" and "dev" are needed for training, "test" is scored at the end."""
        return SPLITS

    def source_files(self, split: str) -> Sequence[Path] | None:
        """The files that `samples(split)` reads, in order. If they change, the data must be prepared again.

        None: not known, so changes are not noticed. An empty list: it reads no files.
        """
        return None

    @property
    def defining_class(self) -> type[Problem]:
        """The class that gives the text. If its code changes, prepared data are compared with the text again."""
        return type(self)

    def make_learner(self) -> Learner:
        """Returns what learns from the training pairs how outputs are read."""
        return self.codec.learner()

    def make_metric(self) -> CorpusMetric:
        """Returns the metric by its name, of several languages their mean; UsageError where it cannot be computed."""
        from t2t_lite.metrics import names

        def of(language: str) -> CorpusMetric:
            options = (self.metric, language, self.bleu_tokenize)
            return names.metric(*options, effective_order=self.bleu_effective_order)

        if len(self.labels) < 2:
            return of(self.target_language)
        from t2t_lite.metrics.per_language import PerLanguage

        metrics = {language: of(language) for language in map(language_of, self.labels)}
        return PerLanguage(metrics, functools.partial(target_of, labels=self.labels))

    def metric_warnings(self, references: Sequence[str]) -> list[str]:
        """Returns what is wrong with scoring dev's `references` by the metric; nothing about what is not BLEU."""
        if self.has_own_metric:
            return []
        from t2t_lite.metrics.reference_warnings import reference_warnings, tokenised_warning

        asked, text = (self.metric, self.target_language, self.bleu_tokenize), (references, "the text of dev")
        found = reference_warnings(*asked, *text, effective_order=self.bleu_effective_order)
        tokenised = tokenised_warning(self.metric, self.bleu_tokenize, *text)
        return [*found, *([tokenised] if tokenised else [])]

    @property
    def has_own_metric(self) -> bool:
        """Whether the problem overrides `make_metric`, so that `metric` does not name its metric."""
        return type(self).make_metric is not Problem.make_metric

    def options(self) -> dict[str, Any]:
        """Constructor arguments that make this problem again, JSON-ready; written to problem.json.

        By default the arguments that the problem was made with.
        """
        return dict(self.given_options)

    def all_options(self) -> dict[str, Any]:
        """The constructor's arguments, and the options that each problem takes, where they are given."""
        common = {name: getattr(self, name) for name in COMMON_OPTIONS}
        return self.options() | {name: value for name, value in common.items() if value != getattr(type(self), name)}

    def settings(self) -> dict[str, Any]:
        """What the prepared data depends on besides text and code; if it changes, the data must be prepared again."""
        settings = {
            "problem": self.name,
            "options": {name: value for name, value in self.options().items() if name not in self.path_options},
            "source_language": self.source_language,
            "target_language": self.target_language,
            "vocab_size": self.vocab_size,
            "vocab_type": self.vocab_type,
            "shared_vocab": self.shared_vocab,
            "character_coverage": self.character_coverage,
        }
        settings |= self.codec.settings
        if self.labels:
            settings["labels"] = list(self.labels)
        if self.byte_fallback:
            settings["byte_fallback"] = True
        if self.keeps_line_breaks:
            settings["line_breaks"] = self.line_breaks
        if self.aligned:
            settings["aligned"] = True
        if self.weighted:
            settings["weighted"] = True
        if self.keep_whole:
            settings["keep_whole"] = list(self.keep_whole)
        if self.cleaning:
            settings["clean"] = read_clean(self.clean)
            settings |= {name: getattr(self, name) for name, reason in _LIMITS.items() if reason in self.cleaning}
        return settings


def own_line_files(problem: Problem) -> Sequence[LineFiles] | None:
    """Returns `line_files` of a problem; None if a class of it overrides `samples` and not `line_files`."""
    names = next(
        vars(cls).keys() & {"samples", "line_files"}
        for cls in type(problem).__mro__
        if vars(cls).keys() & {"samples", "line_files"}
    )
    return problem.line_files() if "line_files" in names else None


def check_problem(problem: Any) -> None:
    """Raises UsageError for what is no class of problems, or has no codec."""
    if not (isinstance(problem, type) and issubclass(problem, Problem)):
        raise UsageError(f"The problem {full_name(problem)} does not derive from t2t_lite.problem.Problem.")
    check_codec(problem)


def check_codec(problem: Problem | type[Problem]) -> None:
    """Raises UsageError for a codec that cannot be found again from the settings stored with prepared data."""
    codec = problem.codec
    if not isinstance(codec, Codec) or type(codec_of(codec.settings)) is not type(codec):
        raise UsageError(
            f"The problem {problem.name!r} has the codec {codec!r}, which nothing would find again for its "
            "prepared data. Give Codec() of t2t_lite.text.codec, for text, or TreeCodec() of "
            "t2t_lite.text.trees.codec, for trees."
        )


def reverse(forward: type[Problem]) -> type[Problem]:
    """Returns the problem NAME_rev: `forward` with source and target swapped, taking the same options.

    Raises:
        UsageError: `forward` gives trees.
    """
    check_problem(forward)
    if not forward.codec.is_text:
        raise UsageError(f"There is no {forward.name}_rev: {forward.name} gives trees, from which no text is made.")

    class Reversed(Problem):
        __doc__ = forward.__doc__
        __module__ = forward.__module__  # whose code it is
        name = f"{forward.name}_rev"
        default_hparams = forward.default_hparams

        def __init__(self, **options: Any) -> None:
            self._forward = forward(**options)
            self._forward.given_options = options
            if self._forward.labels:
                raise UsageError(
                    f"{self.name} would have the labels of target languages on the wrong side. Take {forward.name} and "
                    "name the languages the other way round: --languages=de-en,fr-en instead of en-de,en-fr."
                )
            # Not by inheritance: the problem's own methods must see its own direction.
            for attribute in Problem.__annotations__.keys() - Reversed.__dict__.keys():
                setattr(self, attribute, getattr(self._forward, attribute))
            self.source_language, self.target_language = self._forward.target_language, self._forward.source_language

        def samples(self, split: str) -> Iterator[tuple[str, str]]:
            for pair in self._forward.samples(split):
                yield pair.reversed() if isinstance(pair, AlignedPair | WeightedPair) else (pair[1], pair[0])

        def line_files(self) -> Sequence[LineFiles] | None:
            files = own_line_files(self._forward)
            return None if files is None else [pair.reversed() for pair in files]

        def tell_pairs(self, numbers: Sequence[int]) -> None:
            self._forward.tell_pairs(numbers)

        def place(self, side: int) -> str:
            return self._forward.place(1 - side)

        def pair_languages(self) -> tuple[str, str]:
            source, target = self._forward.pair_languages()
            return target, source

        @property
        def several_languages(self) -> bool:
            return self._forward.several_languages

        def splits(self) -> tuple[str, ...]:
            return self._forward.splits()

        def source_files(self, split: str) -> Sequence[Path] | None:
            return self._forward.source_files(split)

        @property
        def defining_class(self) -> type[Problem]:
            return self._forward.defining_class

        def make_metric(self) -> CorpusMetric:
            return self._forward.make_metric() if self.has_own_metric else super().make_metric()

        @property
        def has_own_metric(self) -> bool:
            return self._forward.has_own_metric

        def options(self) -> dict[str, Any]:
            return self._forward.options()

        def settings(self) -> dict[str, Any]:
            names = ("source_language", "target_language")
            own = {"problem": self.name, **{name: getattr(self, name) for name in names}}
            return {**self._forward.settings(), **own}

    Reversed.__signature__ = _signature(forward)  # type: ignore[attr-defined]
    return Reversed


def _signature(problem: type[Problem]) -> inspect.Signature:
    """The signature of a constructor, its annotations as types where they can be had."""
    try:
        return inspect.signature(problem, eval_str=True)
    except NameError:  # a type that is imported for type checkers alone
        return inspect.signature(problem)


def check_vocab_size(size: int | None) -> None:
    """Raises UsageError if --vocab_size is given and is too small or too large."""
    if size is not None and not 4 <= size <= _MOST_PIECES:
        raise UsageError(f"--vocab_size={size} must be from 4 to {_MOST_PIECES:,}; it counts pieces.")


def check_choice(flag: str, value: str | None, choices: Sequence[str]) -> None:
    """Raises UsageError if a flag is given, and its value is none of the choices."""
    if value is not None and value not in choices:
        raise UsageError(f"--{flag}={value} is not one of: {', '.join(choices)}.{did_you_mean(value, choices)}")


def cleaning_reasons(clean: bool | str | Sequence[str]) -> tuple[str, ...]:
    """Returns the reasons that `clean` names, in the order of CLEANING_REASONS, or raises UsageError.

    Args:
        clean: as in Problem, or the names with commas between; "all": all of them.
    """
    if isinstance(clean, str):
        clean = {"all": True, "true": True, "false": False}.get(clean.lower(), clean.split(","))
    if isinstance(clean, bool):
        return CLEANING_REASONS if clean else ()
    names = [name.strip() for name in clean]
    for name in names:
        check_choice("clean", name, CLEANING_REASONS)
    return tuple(reason for reason in CLEANING_REASONS if reason in names)


def read_clean(clean: bool | str | Sequence[str]) -> bool | list[str]:
    """Returns the reasons that `clean` names as `Problem.clean` has them: True for all, False for none."""
    reasons = cleaning_reasons(clean)
    return reasons == CLEANING_REASONS or list(reasons) or False


def check_cleaning(reasons: Sequence[str], max_words: int | None, max_ratio: float | None) -> None:
    """Raises UsageError if a limit of cleaning is given without the reason that it limits, or is below 1."""
    for (name, reason), value in zip(_LIMITS.items(), (max_words, max_ratio), strict=True):
        if value is not None and reason not in reasons:
            raise UsageError(f"--{name}={value:g} has no effect without --clean={reason}.")
        if value is not None and not value >= 1:
            raise UsageError(f"--{name}={value:g} must be at least 1.")
