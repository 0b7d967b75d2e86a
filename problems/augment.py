"""More training data from a few trees: their phrases, and copies in which words are exchanged."""

import collections
import random
from collections.abc import Iterable, Iterator

Pair = tuple[str, str]  # words, symbols; each separated by spaces

_SHARES = (0.6, 0.3)  # of the words that are exchanged, alternating from copy to copy


def split_phrases(pair: Pair) -> Iterator[Pair]:
    """Yields each phrase in a pair that has several words, and the pair itself last."""
    words, symbols = (text.split(" ") for text in pair)
    opened: list[tuple[int, int]] = []  # (first symbol, first word) of the phrases that are open
    position = 0
    for number, symbol in enumerate(symbols, start=1):
        if symbol.startswith("("):
            opened.append((number - 1, position))
        elif not symbol.startswith(")"):
            position += 1
        else:
            symbol_at, word_at = opened.pop()
            if position - word_at > 1 or not opened:
                yield " ".join(words[word_at:position]), " ".join(symbols[symbol_at:number])


def exchange_words(pairs: Iterable[Pair], copies: int) -> Iterator[Pair]:
    """Yields all pairs, and then copies in which words are replaced by others of the same part of speech.

    Words are drawn in proportion to their frequency. Holds all pairs in memory.

    Args:
        copies: how many of each pair.
    """
    kept = list(pairs)
    yield from kept
    of_tag = collections.defaultdict(list)
    for words, symbols in kept:
        for word, tag in zip(words.split(" "), _tags(symbols), strict=True):
            of_tag[tag].append(word)
    draw = random.Random(1)
    for copy in range(copies):
        share = _SHARES[copy % len(_SHARES)]
        for words, symbols in kept:
            new = [
                draw.choice(of_tag[tag]) if draw.random() < share else word
                for word, tag in zip(words.split(" "), _tags(symbols), strict=True)
            ]
            yield " ".join(new), symbols


def _tags(symbols: str) -> list[str]:
    return [symbol for symbol in symbols.split(" ") if not symbol.startswith(("(", ")"))]
