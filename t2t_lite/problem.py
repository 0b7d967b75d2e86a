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

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

SPLITS = ("train", "dev", "test")


class Problem:
    """A task from text to text.

    Class attributes to override:
        source_language, target_language: names of the two sides, such as "en" and "de".
        vocab_size: pieces per vocabulary, PAD, EOS and UNK included.
        vocab_type: "bpe" or "unigram", as SentencePiece trains them.
        shared_vocab: one vocabulary for both sides (section 5.1), or one for each.
        character_coverage: share of the characters that get a piece of their own; the rest becomes UNK.
        metric: the dev score that picks the best checkpoint: "bleu" (cased sacreBLEU), "bleu_lc" (lowercased),
            "bleu_tok_lc" (text that is tokenised already, lowercased) or "chrf".
    """

    name: ClassVar[str] = ""  # set by register_problem
    default_hparams: ClassVar[str] = "base"
    source_language: str = "source"
    target_language: str = "target"
    vocab_size: int = 32000
    vocab_type: Literal["bpe", "unigram"] = "bpe"
    shared_vocab: bool = True
    character_coverage: float = 1.0
    metric: str = "bleu"

    def samples(self, split: str) -> Iterator[tuple[str, str]]:
        """Yields (source, target) pairs of one split: "train", "dev" or "test"; the same ones at each call."""
        raise NotImplementedError(f"{type(self).__name__} must define samples(split).")

    def splits(self) -> tuple[str, ...]:
        """The splits this problem has; "train" and "dev" are needed for training, "test" is scored at the end."""
        return SPLITS

    def options(self) -> dict[str, Any]:
        """Constructor arguments that make this problem again, JSON-ready; written to problem.json."""
        return {}

    def settings(self) -> dict[str, Any]:
        """What the prepared data depends on; a change of it asks for new data."""
        return {
            "problem": self.name,
            "options": self.options(),
            "source_language": self.source_language,
            "target_language": self.target_language,
            "vocab_size": self.vocab_size,
            "vocab_type": self.vocab_type,
            "shared_vocab": self.shared_vocab,
            "character_coverage": self.character_coverage,
        }
