"""Codec: how a problem's targets are learned, and how a model's outputs become what its user reads.

A problem names its codec; data, training, runs and exports use it. The codec here is for lines of text; trees/codec.py
has the one for trees.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from t2t_lite.files import StrPath
from t2t_lite.text.any_vocabulary import AnyVocabulary

if TYPE_CHECKING:
    from t2t_lite.text.trees.linearize import TreeGrammar

Pair = tuple[str, str]  # source, target


class Outputs:
    """A model's inputs and outputs as its user sees them: text, as the vocabularies read and write it."""

    is_text: ClassVar[bool] = True

    def source(self, line: str, vocabulary: AnyVocabulary) -> str:
        """Returns a line as the model reads it with its source vocabulary."""
        return vocabulary.source_line(line)

    def target(self, text: str, vocabulary: AnyVocabulary) -> str:
        """Returns a given target as the model writes it with its target vocabulary."""
        return vocabulary.line(text)

    def unknown(self, written: str) -> list[str]:
        """Returns what a target holds that the model can never write; here nothing, as text has pieces of any kind."""
        return []

    def grammar(self) -> TreeGrammar | None:
        """Returns which pieces may follow each other in an output; None: any."""
        return None

    def size(self, line: str) -> int:
        """Returns the number of a line's parts on which the grammar depends; 0 without a grammar."""
        return 0

    def output(self, line: str, written: str) -> tuple[str, bool]:
        """Returns the output for a line for which the model wrote `written`, and whether this had to be repaired."""
        return written, False

    def reference(self, line: str, target: str) -> str:
        """Returns the reference for the line of a prepared pair: what the model's output is compared with."""
        return target

    def files(self) -> dict[str, str]:
        """Returns what was learned besides vocabularies, by file name; runs and exports include these files."""
        return {}

    def describe(self) -> dict[str, str]:
        """Returns what a model card says about the outputs."""
        return {}


class Learner:
    """Learns what `Outputs.files` holds; for text there is nothing to learn."""

    def watch(self, pairs: Iterable[Pair]) -> Iterable[Pair]:
        """Yields the training pairs as they come."""
        return pairs

    def files(self, others: Mapping[str, Sequence[Pair]]) -> dict[str, str]:
        """Returns the files after all training pairs passed; warns of pairs in other splits that do not fit them."""
        return {}


class Codec:
    """Targets that are text; a problem of other targets has a subclass.

    Attributes:
        is_text: whether metrics of text apply, and a source can be made from a target.
        file_names: names of the files that `Outputs.files` may hold.
        settings: what is stored with prepared data; `codecs.codec_of` reads it.
    """

    is_text: ClassVar[bool] = True
    file_names: ClassVar[Sequence[str]] = ()
    settings: ClassVar[Mapping[str, str]] = {}

    def target_vocab_type(self, vocab_type: str) -> str:
        """Returns the type of the targets' vocabulary where it is not shared with the sources."""
        return vocab_type

    def check_vocabularies(self, problem: str, source: AnyVocabulary, target: AnyVocabulary) -> None:
        """Raises UsageError if the problem cannot use the given vocabularies."""

    def check_unknown(self, problem: str, number: int) -> None:
        """Raises DataError if `number` unknown training pieces are too many for a given vocabulary."""

    def learner(self) -> Learner:
        return Learner()

    def outputs(self, folder: StrPath, vocabulary: AnyVocabulary) -> Outputs:
        """Opens the outputs of the prepared data or the run in `folder`; `vocabulary` is that of the targets."""
        return Outputs()
