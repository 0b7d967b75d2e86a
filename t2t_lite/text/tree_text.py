"""Trees where everything else is lines of text: what a parser's model reads and writes, and what its user sees."""

from __future__ import annotations

from t2t_lite.text.linearize import repair, restore, sentence, tag_punctuation
from t2t_lite.text.vocabulary import UNK, Vocabulary


class TreeText:
    """Makes trees of what a model writes.

    Args:
        vocabulary: of the symbols (kind "word"); others are no symbols of the model's.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._known = frozenset(vocabulary.words()[UNK + 1 :])

    def tree(self, line: str, output: str) -> tuple[str, bool]:
        """Returns the tree of a model's output over the words of a line, and whether the output had to be repaired.

        A line without words has no tree: "".
        """
        words = sentence(line)
        if not words:
            return "", False
        tree, repairs = repair(output.split(" "), words.split(" "), self._known)
        tree, changed = tag_punctuation(tree)
        return str(tree), bool(repairs or changed)

    @staticmethod
    def reference(line: str, target: str) -> str:
        """Returns the tree of a prepared pair; DataError if the target is none over the words of the line."""
        return str(restore(target.split(" "), sentence(line).split(" ")))
