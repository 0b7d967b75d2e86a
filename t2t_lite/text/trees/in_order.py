"""In-order linearisation (Fernández-González and Gómez-Rodríguez, 2020): a phrase opens after its first child.

(S (NP (DT the) (NN cat)) (VP (VBZ sleeps))), which is (S (NP DT NN )NP (VP VBZ )VP )S in brackets, becomes

    DT (NP NN )NP (S VBZ (VP )VP )S

The symbols are the same, those of the "enriched" form there, whose reductions name their phrases.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from t2t_lite.text.trees.linearize import SYMBOL


def to_in_order(symbols: Sequence[str]) -> list[str]:
    """Returns the symbols of a tree, as `linearize` gives them, in order."""
    found: list[str] = []
    waiting: list[str] = []  # phrases around the next symbol; "" for one whose first child has passed
    for symbol in symbols:
        if symbol.startswith("("):
            waiting.append(symbol)
            continue
        found.append(symbol)
        if symbol.startswith(")"):
            waiting.pop()
        if waiting and waiting[-1]:
            found.append(waiting[-1])
            waiting[-1] = ""
    return found


def to_bracketed(symbols: Sequence[str], known: Collection[str] | None = None) -> list[str]:
    """Returns the inverse of `to_in_order`; of other sequences one that `repair` takes, with the same symbols.

    A phrase opens before the word or phrase that has just ended within the innermost open phrase, or where it stands if
    there is none. Symbols that are none, or not among those `known`, stay in their order.
    """
    found: list[str] = []
    open_phrases: list[tuple[str, int]] = []  # label, place in `found`
    ended: int | None = None  # the place of what has just ended
    for symbol in symbols:
        match = SYMBOL.fullmatch(symbol)
        if match is None or (known is not None and symbol not in known):
            found.append(symbol)
            continue
        bracket, name = match.groups()
        if bracket == "(":
            place = len(found) if ended is None else ended
            open_phrases.append((name, place))
            ended = None
            found.insert(place, symbol)
            continue
        if not bracket:
            ended = len(found)
        elif name in (label for label, _ in open_phrases):
            while open_phrases[-1][0] != name:
                open_phrases.pop()
            _, ended = open_phrases.pop()
        found.append(symbol)
    return found
