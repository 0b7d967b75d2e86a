"""Problems that make their own data: for a first run, for tests, for a look at what a model learns."""

import random
import string
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from t2t_lite.errors import UsageError
from t2t_lite.problem import SPLITS, Problem
from t2t_lite.registry import register_problem

from ..parsing import ParsingProblem, as_pair
from . import ende, treebank


class ToyProblem(Problem):
    """A problem whose pairs are drawn from a seeded, endless stream.

    A hash of the source decides which split a pair may belong to. So no two splits share a source, however many pairs
    are drawn. Within a split each source occurs once.

    Args:
        train_size: pairs to make for training.
    """

    default_hparams = "tiny"
    dev_size = 200
    test_size = 500

    def __init__(self, train_size: int = 20_000) -> None:
        if train_size < 1:
            raise UsageError(f"{self.name}: train_size={train_size} must be at least 1.")
        self.train_size = train_size

    def stream(self, seed: str) -> Iterator[tuple[str, str]]:
        """Yields pairs without end, the same ones for the same seed; they may repeat."""
        raise NotImplementedError(f"{type(self).__name__} must define stream(seed).")

    def samples(self, split: str) -> Iterator[tuple[str, str]]:
        """Yields the pairs of one split; the first n pairs do not depend on its size."""
        sizes = dict(zip(SPLITS, (self.train_size, self.dev_size, self.test_size), strict=True))
        seen: set[str] = set()
        for source, target in self.stream(f"{self.name} {split}"):
            if split_of(source) == split and source not in seen:
                seen.add(source)
                yield source, target
                if len(seen) == sizes[split]:
                    return

    def source_files(self, split: str) -> list[Path]:
        return []

    def options(self) -> dict[str, Any]:
        return {"train_size": self.train_size}


def split_of(source: str) -> str:
    """Returns the split that a source may belong to: "train" for 8 in 10, "dev" for one, "test" for one."""
    bucket = zlib.crc32(source.encode()) % 10
    return ("dev", "test")[bucket] if bucket < 2 else "train"


@register_problem
class ToyEnde(ToyProblem):
    """English to German by a small grammar: 20,000 made-up sentences, nothing to download."""

    source_language = "en"
    target_language = "de"
    vocab_size = 800

    def stream(self, seed: str) -> Iterator[tuple[str, str]]:
        return ende.pairs(seed)


@register_problem
class ToyReverse(ToyProblem):
    """Letters and digits to the same in reverse order: the least a sequence model must learn."""

    source_language = "forward"
    target_language = "backward"
    vocab_size = 64  # PAD, EOS, UNK, the space, 30 symbols alone and after a space: all that there is
    test_size = 200
    symbols = string.ascii_lowercase[:20] + string.digits
    shortest, longest = 4, 12

    def __init__(self, train_size: int = 10_000) -> None:
        super().__init__(train_size)

    def stream(self, seed: str) -> Iterator[tuple[str, str]]:
        draw = random.Random(seed).random
        while True:
            length = self.shortest + int(draw() * (self.longest - self.shortest + 1))
            symbols = [self.symbols[int(draw() * len(self.symbols))] for _ in range(length)]
            yield " ".join(symbols), " ".join(reversed(symbols))


@register_problem
class ToyParsing(ToyProblem, ParsingProblem):
    """English sentences to their trees, by a small grammar: 20,000 made-up ones, nothing to download."""

    vocab_size = 1600  # nearly all words are whole

    def stream(self, seed: str) -> Iterator[tuple[str, str]]:
        return filter(None, map(as_pair, treebank.trees(seed)))
