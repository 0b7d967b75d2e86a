"""Rules of a search that hold for any model: against repetitions, and against outputs that are too short.

Legend: B sentences, K hypotheses of a sentence, L longest output, V vocabulary.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from t2t_lite.groups import DecodeGroup
from t2t_lite.ids import EOS

_NEVER, _ALWAYS = -float("inf"), float("inf")


class Rules(NamedTuple):
    """What may not follow a hypothesis, or is less likely to. The fields are settings of `DecodeGroup`.

    no_repeat_ngram_size: no output has so many pieces in a row twice (Paulus et al., 2018, section 2.5); 0: it may.
    min_length: outputs have at least so many pieces, without the end symbol, unless their longest length is shorter.
    repetition_penalty: theta of Keskar et al. (2019, section 4.1), at least 1; see `penalise`.
    """

    no_repeat_ngram_size: int = 0
    min_length: int = 0
    repetition_penalty: float = 1.0

    @classmethod
    def of(cls, decode: DecodeGroup) -> Rules:
        """Returns the rules among settings."""
        return cls(**{name: getattr(decode, name) for name in cls._fields})

    def changed(self) -> dict[str, float]:
        """Returns those that are not at their default."""
        return {name: value for name, value in self._asdict().items() if value != self._field_defaults[name]}

    def permit(self, logits: Any, alive: Any, index: Any) -> Any:
        """Returns the logits [B, K, V], minus infinity for the symbols that may not come next.

        Args:
            alive: int32 [B, K, L], the hypotheses.
            index: how many symbols each has, int32 scalar.
        """
        if self.min_length:
            is_end = tf.range(logits.shape[-1]) == EOS
            logits = tf.where(is_end & (index < self.min_length), _NEVER, logits)
        return self._without_repeats(logits, alive, index) if self.no_repeat_ngram_size else logits

    def penalise(self, values: Any, alive: Any, index: Any) -> Any:
        """Returns values [B, K, V], for symbols that a hypothesis has divided by theta, or times theta if negative.

        As in transformers, they are logits in greedy search and sampling. In a beam search they are log-probabilities,
        and its scores are made of what is returned. Other arguments: see `permit`.
        """
        of_alive = tf.gather(values, alive, batch_dims=2)
        theta = self.repetition_penalty
        lower = tf.where(of_alive < 0, of_alive * theta, of_alive / theta)
        return _lower(values, alive, tf.where(tf.range(tf.shape(alive)[2]) < index, lower, _ALWAYS))

    def _without_repeats(self, logits: Any, alive: Any, index: Any) -> Any:
        """Without the symbols that followed earlier occurrences of the last n - 1 symbols."""
        shape = tf.shape(alive)
        places = tf.range(shape[2])
        repeats = tf.fill(shape, True) & (places < index)
        for back in range(1, self.no_repeat_ngram_size):
            last = tf.gather(alive, tf.maximum(index - back, 0), axis=2)
            equal = tf.pad(tf.equal(alive, last[:, :, None]), [[0, 0], [0, 0], [back, 0]])
            repeats &= equal[:, :, : shape[2]] & (index >= back)
        return _lower(logits, alive, tf.where(repeats, _NEVER, _ALWAYS))


def _lower(values: Any, symbols: Any, most: Any) -> Any:
    """Values [B, K, V], for `symbols` [B, K, L] at most `most` [B, K, L]."""
    shape = tf.shape(symbols)
    rows = [tf.reshape(tf.range(shape[0]), [-1, 1, 1]), tf.reshape(tf.range(shape[1]), [1, -1, 1])]
    at = tf.stack([*(tf.broadcast_to(row, shape) for row in rows), symbols], axis=-1)
    return tf.tensor_scatter_nd_min(values, at, most)


NO_RULES = Rules()
