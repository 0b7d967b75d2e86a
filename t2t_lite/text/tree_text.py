"""Trees where everything else is lines of text: what a parser's model reads and writes, and what its user sees."""

from __future__ import annotations

from t2t_lite.errors import UsageError
from t2t_lite.ids import UNK
from t2t_lite.text.linearize import repair, restore, sentence, tag_punctuation
from t2t_lite.text.tag_table import WSJ, TagTable
from t2t_lite.text.vocabulary import Vocabulary
from t2t_lite.text.vocabulary_files import AnyVocabulary

NOT_OF_TREES = (
    "Trees need a vocabulary of whole symbols, which t2t-lite trains; one that was imported from tensor2tensor is for "
    "text only."
)


class TreeText:
    """Makes trees of what a model writes.

    Args:
        vocabulary: of the symbols (kind "word"); others are no symbols of the model's.
        table: the tags that words may have.

    Attributes:
        words: the vocabulary's, by id.

    Raises:
        UsageError: the vocabulary is imported; its pieces are not symbols.
    """

    def __init__(self, vocabulary: AnyVocabulary, table: TagTable = WSJ) -> None:
        if not isinstance(vocabulary, Vocabulary):
            raise UsageError(NOT_OF_TREES)
        self.words = vocabulary.words()
        self._known = frozenset(self.words[UNK + 1 :])
        self.table = table

    def tree(self, line: str, output: str) -> tuple[str, bool]:
        """Returns the tree of a model's output over the words of a line, and whether the output had to be repaired.

        A line without words has no tree: "".
        """
        words = sentence(line)
        if not words:
            return "", False
        tree, repairs = repair(output.split(" "), words.split(" "), self._known, self.table)
        tree, changed = tag_punctuation(tree, self.table)
        return str(tree), bool(repairs or changed)

    def reference(self, line: str, target: str) -> str:
        """Returns the tree of a prepared pair; DataError if the target is none over the words of the line."""
        # Where tags were learned, TAG may be one of the treebank's own.
        table = None if self.table.learned else self.table
        return str(restore(target.split(" "), sentence(line).split(" "), table))
