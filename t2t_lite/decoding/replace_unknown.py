"""Words of the source in the place of unknown pieces (Luong et al., 2015): --replace_unk."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from t2t_lite.ids import EOS
from t2t_lite.text.any_vocabulary import WORD_START, AnyVocabulary
from t2t_lite.text.labels import split_label


class UnknownReplacer:
    """Puts words of the source into the place of an output's words with an unknown piece.

    Each gets the word of the source that has the most attention at its first unknown piece. Words are what white space
    parts, so that a mark of punctuation comes along with its word.

    Args:
        source, target: the vocabularies.
    """

    def __init__(self, source: AnyVocabulary, target: AnyVocabulary) -> None:
        self._source, self._target = source, target
        # Of words: all other kinds have a piece for the space.
        self._whole = {id(side): WORD_START not in side.pieces(range(side.size)) for side in (source, target)}

    def replace(self, line: str, source: Sequence[int], target: Sequence[int], attention: np.ndarray) -> str:
        """Returns the text of an output.

        Args:
            line: the source, as the model reads it.
            source, target: its pieces, cut, and those of the output; without padding.
            attention: float32 [T, S]; row t is of the step that predicts target t.
        """
        label, text = split_label(line, self._source.labels)
        first, last = int(bool(label)), len(source) - 1  # without the label and the end symbol
        of_source = self._words(self._source, source[first:last])
        words = text.split()
        if len(words) != len(of_source):
            [whole] = self._source.encode_source([line])  # more than `source` if that was cut
            if len(words) != len(self._words(self._source, whole[first:])):  # the vocabulary parts words in another way
                words = [self._source.text_of(ids) for ids in of_source]
        owners = [number for number, ids in enumerate(of_source) for _ in ids]
        parts: list[str] = []
        known: list[int] = []
        at = 0
        for ids in self._words(self._target, target[:-1] if target[-1:] == [EOS] else target):
            if self._target.unknown in ids and owners:
                row = attention[at + ids.index(self._target.unknown), first:last]
                parts += [self._target.text_of(known), words[owners[int(row.argmax())]]]
                known = []
            else:
                known += ids
            at += len(ids)
        return " ".join(filter(None, [*parts, self._target.text_of(known)]))

    def _words(self, vocabulary: AnyVocabulary, ids: Sequence[int]) -> list[list[int]]:
        """The pieces of each word."""
        words: list[list[int]] = []
        for i, piece in zip(ids, vocabulary.display_pieces(ids), strict=True):
            begins = piece.startswith(WORD_START) or (i == vocabulary.unknown and self._whole[id(vocabulary)])
            if begins or not words:
                words.append([])
            words[-1].append(i)
        return words
