"""Rules of a search that hold for any model: no n-gram twice, no output that is too short.

Legend: B sentences, K hypotheses of a sentence, L longest output, V vocabulary.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from t2t_lite.ids import EOS

_NEVER = -float("inf")


class Rules(NamedTuple):
    """What may not follow a hypothesis.

    no_repeat_ngram_size: no output has so many pieces in a row twice (Paulus et al., 2018, section 2.5); 0: it may.
    min_length: outputs have at least so many pieces, without the end symbol, unless their longest length is shorter.
    """

    no_repeat_ngram_size: int = 0
    min_length: int = 0

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

    def _without_repeats(self, logits: Any, alive: Any, index: Any) -> Any:
        """Without the symbols that followed earlier occurrences of the last n - 1 symbols."""
        shape = tf.shape(alive)
        places = tf.range(shape[2])
        repeats = tf.fill(shape, True) & (places < index)
        for back in range(1, self.no_repeat_ngram_size):
            last = tf.gather(alive, tf.maximum(index - back, 0), axis=2)
            equal = tf.pad(tf.equal(alive, last[:, :, None]), [[0, 0], [0, 0], [back, 0]])
            repeats &= equal[:, :, : shape[2]] & (index >= back)
        rows = [tf.reshape(tf.range(shape[0]), [-1, 1, 1]), tf.reshape(tf.range(shape[1]), [1, -1, 1])]
        at = tf.stack([*(tf.broadcast_to(row, shape) for row in rows), alive], axis=-1)
        return tf.tensor_scatter_nd_min(logits, at, tf.where(repeats, _NEVER, float("inf")))


NO_RULES = Rules()
