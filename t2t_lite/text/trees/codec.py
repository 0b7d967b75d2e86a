"""Codec of trees: targets are linearised trees (linearize.py); sources are their words, separated by spaces."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from t2t_lite.errors import DataError, UsageError
from t2t_lite.files import StrPath
from t2t_lite.ids import UNK
from t2t_lite.text.any_vocabulary import AnyVocabulary
from t2t_lite.text.codec import Codec, Learner, Outputs
from t2t_lite.text.trees.in_order import to_bracketed, to_in_order
from t2t_lite.text.trees.linearize import ROOT, TreeGrammar, linearize, repair, restore, sentence, tag_punctuation
from t2t_lite.text.trees.tag_table import TAGS_FILE, WSJ, TagLearner, TagTable, load_table
from t2t_lite.text.trees.tree import normalize, parse

if TYPE_CHECKING:
    from t2t_lite.text.vocabulary import Vocabulary

IN_ORDER = "in_order"  # the linearization of a problem, and in the settings of its prepared data


class TreeText(Outputs):
    """A parser's outputs: trees made from what its model writes.

    Args:
        vocabulary: of the symbols (kind "word"); the model has no other symbols.
        table: the tags that words may have.
        in_order: the model writes them as in_order.py has them.

    Attributes:
        words: the words of the vocabulary, by id.

    Raises:
        UsageError: the vocabulary is imported; its pieces are not symbols.
    """

    is_text = False

    def __init__(self, vocabulary: AnyVocabulary, table: TagTable = WSJ, *, in_order: bool = False) -> None:
        self.words = _own(vocabulary).words()
        self._known = frozenset(self.words[UNK + 1 :])
        self.table, self._in_order = table, in_order

    def _bracketed(self, written: str) -> list[str]:
        symbols = written.split(" ")
        return to_bracketed(symbols, self._known) if self._in_order else symbols

    def source(self, line: str, vocabulary: AnyVocabulary) -> str:
        return sentence(line)

    def target(self, text: str, vocabulary: AnyVocabulary) -> str:
        """Returns the symbols of a tree in brackets, or of one that is linearised already; DataError: broken brackets.

        A root TOP that the model does not have is left out, as it is the one that `output` puts above several trees.
        """
        symbols = [symbol for symbol in re.split("[ \t\r]+", text) if symbol]
        if text.rstrip().endswith(")"):  # in brackets: no symbol ends so
            tree = normalize(parse(text))
            symbols = linearize(tree) if tree else []
            if symbols[:1] == [f"({ROOT}"] and symbols[0] not in self._known:
                symbols = symbols[1:-1]
            symbols = to_in_order(symbols) if self._in_order else symbols
        return " ".join(symbols)

    def unknown(self, written: str) -> list[str]:
        return [symbol for symbol in written.split(" ") if symbol and symbol not in self._known]

    def grammar(self) -> TreeGrammar | None:
        return TreeGrammar.of(self.words, in_order=self._in_order)

    def size(self, line: str) -> int:
        """Returns the number of a line's words."""
        words = sentence(line)
        return len(words.split(" ")) if words else 0

    def output(self, line: str, written: str) -> tuple[str, bool]:
        """Returns the tree of a model's symbols over the words of a line, and whether they had to be repaired.

        A line without words has no tree: "".
        """
        words = sentence(line)
        if not words:
            return "", False
        tree, repairs = repair(self._bracketed(written), words.split(" "), self._known, self.table)
        tree, changed = tag_punctuation(tree, self.table)
        return str(tree), bool(repairs or changed)

    def reference(self, line: str, target: str) -> str:
        """Returns the tree of a prepared pair; DataError if the target is not a tree over the words of the line."""
        # If tags were learned, TAG may be one of the treebank's own.
        table = None if self.table.learned else self.table
        symbols = to_bracketed(target.split(" ")) if self._in_order else target.split(" ")
        return str(restore(symbols, sentence(line).split(" "), table))

    def files(self) -> dict[str, str]:
        return {TAGS_FILE: self.table.to_json()} if self.table.learned else {}

    def describe(self) -> dict[str, str]:
        return {"tags": self.table.describe(), **({"linearization": IN_ORDER} if self._in_order else {})}


class TreeCodec(Codec):
    """Targets that are trees; their symbols have a vocabulary of their own, in which each symbol is one piece."""

    is_text = False
    file_names = (TAGS_FILE,)
    settings: ClassVar[Mapping[str, str]] = {"target_kind": "tree"}

    def target_vocab_type(self, vocab_type: str) -> str:
        return "word"

    def check_vocabularies(self, problem: str, source: AnyVocabulary, target: AnyVocabulary) -> None:
        from t2t_lite.text import sentencepiece_model

        try:
            kind = sentencepiece_model.kind(_own(target))
        except UsageError as error:
            raise UsageError(f"{problem}: {error}") from None
        if source is target or kind != "word":
            raise UsageError(
                f"{problem} gives trees, whose symbols need a vocabulary of their own, of whole words; the one that "
                "--vocabulary names is another. Give a run that was trained on trees."
            )

    def check_unknown(self, problem: str, number: int) -> None:
        if number:
            raise DataError(
                f"The training trees of {problem} hold {number:,} symbols that the given vocabulary does not have, so "
                "that a model could not learn them. Leave --vocabulary out."
            )

    def learner(self) -> Learner:
        return TagLearner(WSJ.deleted)

    def outputs(self, folder: StrPath, vocabulary: AnyVocabulary) -> TreeText:
        return TreeText(vocabulary, load_table(folder))


class InOrderCodec(TreeCodec):
    """Trees that are linearised in order (in_order.py)."""

    settings: ClassVar[Mapping[str, str]] = {**TreeCodec.settings, "linearization": IN_ORDER}

    def outputs(self, folder: StrPath, vocabulary: AnyVocabulary) -> TreeText:
        return TreeText(vocabulary, load_table(folder), in_order=True)


def _own(vocabulary: AnyVocabulary) -> Vocabulary:
    """Returns the vocabulary if t2t-lite trained it; otherwise raises UsageError."""
    from t2t_lite.text.vocabulary import Vocabulary

    if not isinstance(vocabulary, Vocabulary):
        raise UsageError(
            "Trees need a vocabulary of whole symbols, which t2t-lite trains; one that was imported from tensor2tensor "
            "is for text only."
        )
    return vocabulary
