"""Trees of a small made-up language, and the slips of a parser: tags left out and doubled."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from t2t_lite.text.trees.tree import Tree, parse

# Words end in their case, number or tense. Adjectives follow their nouns, verbs stand last, and nothing marks the end.
_ENDINGS = {"NOM": "ak", "ACC": "om", "ADJ": "ir", "POST": "su", "VERB": "eta", "AUX": "vu"}
_ONSETS, _VOWELS = "p t k b d g m n s l r ch sh st".split(), "aeiou"


def _word(draw: random.Random, tag: str) -> str:
    stem = "".join(draw.choice(_ONSETS) + draw.choice(_VOWELS) for _ in range(draw.choice([1, 2, 2, 3])))
    return f"({tag} {stem}{_ENDINGS[tag]})"


def _noun_phrase(draw: random.Random, tag: str, depth: int) -> str:
    parts = [_word(draw, tag)]
    parts += [f"(AP {_word(draw, 'ADJ')})" for _ in range(draw.choice([0, 0, 1, 2]))]
    if depth and draw.random() < 0.3:
        parts.append(f"(RC {_clause(draw, depth - 1)})")
    return f"(NP {' '.join(parts)})"


def _clause(draw: random.Random, depth: int) -> str:
    parts = [_noun_phrase(draw, "NOM", depth)]
    if draw.random() < 0.5:
        parts.append(f"(PP {_noun_phrase(draw, 'ACC', depth)} {_word(draw, 'POST')})")
    verb = f"(V {_word(draw, 'VERB')})" if draw.random() < 0.7 else f"(V {_word(draw, 'VERB')} {_word(draw, 'AUX')})"
    parts.append(f"(VP {_noun_phrase(draw, 'ACC', depth)} {verb})" if draw.random() < 0.7 else f"(VP {verb})")
    return f"(CL {' '.join(parts)})"


def trees(seed: str, count: int) -> Iterator[Tree]:
    """Yields trees of 2 to about 40 words."""
    draw = random.Random(seed)
    for _ in range(count):
        yield parse(_clause(draw, 2))


def slipped(draw: random.Random, symbols: Sequence[str], kind: str) -> list[str]:
    """Returns the symbols of a tree with one tag "left out" or "doubled"."""
    at = draw.choice([i for i, symbol in enumerate(symbols) if symbol[0] not in "()"])
    return [*symbols[:at], *symbols[at + 1 :]] if kind == "left out" else [*symbols[: at + 1], *symbols[at:]]
