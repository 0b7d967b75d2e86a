"""Held-out pairs: a dev set for a corpus that has none, chosen by hash among the training pairs."""

import hashlib
import heapq
from collections.abc import Callable, Iterable

from t2t_lite.errors import DataError

Pair = tuple[str, str]


class HeldOut:
    """The pairs with the lowest hashes. The order of the corpus and repeated pairs in it make no difference."""

    def __init__(self, pairs: Iterable[Pair], count: int, is_clean: Callable[[Pair], bool] | None = None) -> None:
        """Chooses `count` different pairs with text on both sides; keeps no others in memory.

        Args:
            is_clean: whether cleaning keeps a pair; only such pairs are chosen. None: there is no cleaning.

        Raises:
            DataError: no pairs would be left to train on.
        """
        chosen: dict[int, Pair] = {}
        highest: list[int] = []  # a heap of their negative hashes
        more = False  # whether there are pairs that are not chosen
        for pair in pairs:
            key = _key(pair)
            if key in chosen or not (pair[0].strip() and pair[1].strip()) or not (is_clean is None or is_clean(pair)):
                continue
            chosen[key] = pair
            heapq.heappush(highest, -key)
            if len(chosen) > count:
                more = True
                del chosen[-heapq.heappop(highest)]
        if not more:
            kept = "" if is_clean is None else " that --clean keeps"
            raise DataError(
                f"--dev_lines={count} would leave nothing to train on: the training data have {len(chosen):,} "
                f"different pairs with text on both sides{kept}. Give a smaller number."
            )
        self.pairs = [chosen[key] for key in sorted(chosen)]
        self._keys = frozenset(chosen)

    def __contains__(self, pair: Pair) -> bool:
        """Whether the pair is held out; differences in white space do not count."""
        return _key(pair) in self._keys


def _key(pair: Pair) -> int:
    text = "\n".join(" ".join(side.split()) for side in pair)
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest())
