"""Log-probabilities of an output's pieces, and of the words that they make."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from t2t_lite.ids import EOS
from t2t_lite.text.any_vocabulary import AnyVocabulary


@dataclasses.dataclass(frozen=True)
class WordScores:
    """Log-probabilities (natural) of an output's pieces, and of its words, which are sums of their pieces'.

    pieces: (piece, log-probability); the last one is the end symbol, unless the output was cut.
    words: (word, log-probability); white space is between words. The end symbol is the last one, "", if it is there.
    """

    pieces: list[tuple[str, float]]
    words: list[tuple[str, float]]

    @property
    def log_prob(self) -> float:
        """That of the output, to which both add up."""
        return sum((value for _, value in self.pieces), 0.0)

    def as_dict(self) -> dict[str, Any]:
        """Returns what JSON holds, with six digits after the point."""
        values = {"pieces": self.pieces, "words": self.words}
        rounded = {name: [[text, round(value, 6)] for text, value in pairs] for name, pairs in values.items()}
        return {"log_prob": round(self.log_prob, 6), **rounded}


def word_scores(vocabulary: AnyVocabulary, ids: Sequence[int], values: Sequence[float]) -> WordScores:
    """Returns the scores of an output.

    A piece belongs to the last word of the text up to it. One that adds no character to the text, such as a space of
    its own or the first bytes of a character, belongs to the word that continues after it.

    Args:
        vocabulary: of the targets.
        ids: the output's pieces, without padding.
        values: the log-probability of each.
    """
    ended = len(ids) > 0 and ids[-1] == EOS
    inner = ids[:-1] if ended else ids
    words: list[str] = []
    sums: list[float] = []
    waiting = 0.0
    for at, value in enumerate(values[: len(inner)], 1):
        before, words = words, vocabulary.text_of(inner[:at]).split()
        waiting += value
        if words != before:
            sums = [*sums, *[0.0] * (len(words) - len(sums))]
            sums[len(words) - 1] += waiting
            waiting = 0.0
    if ended:
        words, sums, waiting = [*words, ""], [*sums, waiting + values[-1]], 0.0
    elif waiting:
        words, sums = words or [""], sums or [0.0]
        sums[-1] += waiting
    pieces = zip(vocabulary.display_pieces(ids), values, strict=True)
    return WordScores([*pieces], [*zip(words, sums, strict=True)])
