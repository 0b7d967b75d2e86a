"""Which symbols may follow each other in the symbols of a tree (linearize.py), for a search that writes only trees."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from t2t_lite.ids import UNK
from t2t_lite.text.linearize import SYMBOL


@dataclasses.dataclass(frozen=True)
class TreeGrammar:
    """The parts that symbols have in trees, by id. Special symbols and those of no use have none.

    Attributes:
        tags: whether a symbol is a tag.
        opens: the number of the label, from 1, of a phrase that opens; 0: the symbol opens none.
        closes: the same of a phrase that closes.
    """

    tags: list[bool]
    opens: list[int]
    closes: list[int]

    @classmethod
    def of(cls, symbols: Sequence[str]) -> TreeGrammar | None:
        """Returns the grammar of symbols, by id; None if they can write no tree.

        A bracket without its counterpart has no part in trees.
        """
        matches = [SYMBOL.fullmatch(symbol) if i > UNK else None for i, symbol in enumerate(symbols)]
        opening, closing = ({m[2] for m in matches if m and m[1] == bracket} for bracket in "()")
        labels = {label: number for number, label in enumerate(sorted(opening & closing), 1)}
        tags = [m is not None and not m[1] for m in matches]
        opens, closes = ([labels.get(m[2], 0) if m and m[1] == bracket else 0 for m in matches] for bracket in "()")
        return cls(tags, opens, closes) if labels and any(tags) else None
