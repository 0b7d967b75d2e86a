"""Banned words: what no output writes, however its pieces cut it.

Legend: B sentences, K hypotheses of a sentence, V vocabulary, S beginnings of banned words, E pieces that continue one.
"""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from t2t_lite.decoding.constraint import Constraint
from t2t_lite.ids import EOS, PAD
from t2t_lite.text.any_vocabulary import WORD_START, AnyVocabulary

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")  # SentencePiece's piece for a byte of a rare character

_log = logging.getLogger("t2t_lite")


class BannedWords(Constraint):
    """No hypothesis has pieces in a row that spell a banned word or phrase.

    Words are as the vocabulary writes them, in the given case, after the mark that begins a word or without it: within
    a word, too. All sequences of pieces count whose text is the word's; the last piece of each never comes. A piece
    that goes beyond the word's end, or begins before it, spells another word.

    Args:
        words: words or phrases, with spaces between words; blank ones count for nothing.
        vocabulary: of the targets. A warning tells which words it cannot write, so that no ban is needed.
    """

    def __init__(self, words: Iterable[str], vocabulary: AnyVocabulary) -> None:
        self.words = tuple(dict.fromkeys(word for word in words if word.strip()))
        self._vocab_size = vocabulary.size
        of_text = defaultdict(list)
        for i, piece in enumerate(vocabulary.pieces(range(vocabulary.size))):
            if i in (PAD, EOS, vocabulary.unknown):
                continue
            of_text[_spelling([piece])].append(i)
        texts, unwritten = set(), []
        for word in self.words:
            ids = vocabulary.encode(vocabulary.line(word))
            if vocabulary.unknown in ids:
                unwritten.append(word)
                continue
            text = _spelling(vocabulary.pieces(ids))
            texts |= {text, text.removeprefix(WORD_START.encode())} - {b""}
        if unwritten:
            _log.warning(
                "The model cannot write %d of %d banned words anyway, such as %r.",
                *(len(unwritten), len(self.words), unwritten[0]),
            )
        states = {b"": 0}  # beginnings of banned words
        steps = set()
        for text in sorted(texts):
            for end in range(1, len(text) + 1):
                states.setdefault(text[:end], len(states))
            for start in range(len(text)):
                for end in range(start + 1, len(text) + 1):
                    steps |= {(text[:start], text[:end], i) for i in of_text.get(text[start:end], ())}
        rows = sorted((states[old], states[new], piece, new in texts) for old, new, piece in steps)
        table = np.array(rows, np.int32).reshape(-1, 4)
        self._from, self._to, self._pieces = table[:, 0], table[:, 1], table[:, 2]
        self._last = np.flatnonzero(table[:, 3])  # the steps that complete a word
        self._num_states = len(states)

    def initial(self, batch: Any, beam_size: int, longest: Any) -> dict[str, Any]:
        begun = tf.tile(tf.equal(tf.range(self._num_states), 0)[None, None], [batch, beam_size, 1])
        return {"begun": begun}  # [B, K, S]: whether the last pieces are this beginning; nothing always is

    def allowed(self, state: dict[str, Any], remaining: Any) -> Any:
        completes = tf.gather(state["begun"], self._from[self._last], axis=2)
        return ~_any_of(completes, self._pieces[self._last], self._vocab_size)

    def advance(self, state: dict[str, Any], symbols: Any) -> dict[str, Any]:
        taken = tf.gather(state["begun"], self._from, axis=2) & tf.equal(symbols[:, :, None], self._pieces)
        begun = _any_of(taken, self._to, self._num_states)
        return {"begun": begun | tf.equal(tf.range(self._num_states), 0)}

    def within(self, ids: Sequence[int]) -> bool:
        """Whether a row of pieces has a banned word."""
        begun = {0}
        last = set(self._last.tolist())
        for symbol in ids:
            steps = [at for at in np.flatnonzero(self._pieces == symbol).tolist() if self._from[at] in begun]
            if last & set(steps):
                return True
            begun = {0} | {int(self._to[at]) for at in steps}
        return False


def _spelling(pieces: Sequence[str]) -> bytes:
    return b"".join(bytes([int(byte[1], 16)]) if (byte := _BYTE.fullmatch(each)) else each.encode() for each in pieces)


def _any_of(values: Any, places: np.ndarray, size: int) -> Any:
    """bool [B, K, E] -> bool [B, K, size]: for each place whether one of the values that have it is true."""
    by_value = tf.transpose(tf.cast(values, tf.int32), [2, 0, 1])
    return tf.transpose(tf.math.unsorted_segment_sum(by_value, places, size), [1, 2, 0]) > 0
