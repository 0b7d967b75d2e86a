"""Overlap of train with dev and test: pairs and sources that a model has seen before it is scored on them."""

from collections.abc import Iterator, Mapping, Sequence

from t2t_lite.data.encode import Pair

Seen = tuple[set[Pair], set[str]]  # pairs and sources


class Overlap:
    """Finds the pairs of dev and test among the training pairs, which stream past; white space counts as one space.

    Args:
        small: the pairs of dev and test, by split.
    """

    def __init__(self, small: Mapping[str, Sequence[Pair]]) -> None:
        self._small = small
        self._pairs = {(_key(source), _key(target)) for pairs in small.values() for source, target in pairs}
        self._sources = {source for source, _ in self._pairs}
        self._seen_pairs: set[Pair] = set()
        self._seen_sources: set[str] = set()

    def __contains__(self, pair: Pair) -> bool:
        """Whether a pair is in dev or test, with both of its sides."""
        source = _key(pair[0])
        return source in self._sources and (source, _key(pair[1])) in self._pairs

    def watch(self, pairs: Iterator[Pair]) -> Iterator[Pair]:
        """Yields the training pairs, and remembers those that dev or test have, too."""
        for pair in pairs:
            self.note(pair)
            yield pair

    def note(self, pair: Pair) -> None:
        """Remembers a training pair if dev or test has it, too, or its source."""
        source = _key(pair[0])
        if source in self._sources:
            self._seen_sources.add(source)
            self._seen_pairs.add((source, _key(pair[1])))

    def take_seen(self) -> Seen:
        """Returns what is remembered, and forgets it."""
        seen = self._seen_pairs, self._seen_sources
        self._seen_pairs, self._seen_sources = set(), set()
        return seen

    def add_seen(self, seen: Seen) -> None:
        """Adds what another process remembers."""
        self._seen_pairs |= seen[0]
        self._seen_sources |= seen[1]

    def facts(self, split: str) -> dict[str, int]:
        """How many pairs of dev or test are in train, and how many of their sources; call it after `watch`."""
        keys = [(_key(source), _key(target)) for source, target in self._small[split]]
        return {
            "pairs": sum(key in self._seen_pairs for key in keys),
            "sources": sum(source in self._seen_sources for source, _ in keys),
        }


def overlap_line(split: str, in_train: Mapping[str, int] | None, pairs: int) -> str:
    """Returns a sentence about a split with `pairs` pairs of which some are in train; "" for none, or not known."""
    if not in_train or not in_train["sources"]:
        return ""
    share = f"{in_train['pairs'] / pairs:.1%}"
    return (
        f"{split}: {in_train['pairs']:,} of {pairs:,} pairs ({share}) and {in_train['sources']:,} sources are also in "
        "train."
    )


def _key(text: str) -> str:
    return " ".join(text.split())
