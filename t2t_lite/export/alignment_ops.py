"""The tags that a parser wrote, aligned with words inside a graph: text/trees/tag_model.py in core TensorFlow ops.

Legend: B sentences, M tags of the one with the most, W words of all sentences together, D places of the band.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from t2t_lite.export.lookup_ops import GraphLookup
from t2t_lite.text.trees.tag_model import BAND, ENDING, FAR, RANKS, SKIP, TagModel

_PLACES = 2 * BAND + 1


class GraphAlignment:
    """`align` in a graph.

    Args:
        tags: by id of the symbol.
        model: of the tags of words.
    """

    def __init__(self, tags: Sequence[str], model: TagModel) -> None:
        self._rows = GraphLookup(list(model.rows))  # the number of a key is its row
        self._costs = model.costs
        self._best = model.best
        self._columns = [model.column(tag) for tag in tags]

    def rows(self, words_W: Any) -> Any:
        """string [W] -> int32 [W]: `TagModel.row`."""
        rows_W = tf.zeros_like(words_W, tf.int32)
        for size in range(1, ENDING + 1):
            endings_W = tf.strings.regex_replace(words_W, rf"(?s)^.*(.{{{size}}})$", r"\1")
            found_W, there_W = self._rows(tf.strings.join([" ", endings_W]))
            rows_W = tf.where(there_W, found_W, rows_W)
        found_W, there_W = self._rows(words_W)
        return tf.where(there_W, found_W, rows_W)

    def best(self, rows_W: Any) -> Any:
        """int32 [W] -> int32 [W]: the columns of the most likely tags."""
        return tf.gather(self._best, rows_W)

    def __call__(self, ids: Any, rows: Any) -> Any:
        """Ragged int32 [B, M], ragged int32 [B, words] -> int32 [B, M + 1]: the word of each tag, -1 for none.

        Places after a sentence's last tag, at least one, hold any number.

        Args:
            ids: of the tags.
            rows: of the words.
        """
        written_B, there_B = (tf.cast(values.row_lengths(), tf.int32) for values in (ids, rows))
        same_B = tf.equal(written_B, there_B)
        ids_BM = tf.pad(ids.to_tensor(), [[0, 0], [0, 1]])  # so that no dimension is 0
        in_order = tf.zeros_like(ids_BM) + tf.range(tf.shape(ids_BM)[1])
        # The cost of the tags in their order; FAR where that is no alignment.
        pairs = tf.stack([tf.ragged.boolean_mask(rows, same_B).flat_values, self._columns_of(ids, same_B)], -1)
        own = tf.ragged.boolean_mask(rows, same_B).with_flat_values(tf.cast(tf.gather_nd(self._costs, pairs), tf.int64))
        own_B = tf.tensor_scatter_nd_update(
            tf.fill(tf.shape(there_B), tf.constant(FAR, tf.int64)), tf.where(same_B), tf.reduce_sum(own, 1)
        )

        def align() -> Any:
            found_BM, least_B = self._align(ids_BM, written_B, rows, there_B)
            return tf.where((same_B & (own_B <= least_B + SKIP))[:, None], in_order, found_BM)

        return tf.cond(tf.reduce_all(own_B <= 3 * SKIP), lambda: in_order, align)

    def _columns_of(self, ids: Any, chosen_B: Any) -> Any:
        return tf.gather(self._columns, tf.ragged.boolean_mask(ids, chosen_B).flat_values)

    def _align(self, ids_BM: Any, written_B: Any, rows: Any, there_B: Any) -> tuple[Any, Any]:
        """-> int32 [B, M + 1] as above, and int64 [B]: the costs."""
        number_B = tf.minimum(written_B, there_B + BAND)
        longest = tf.maximum(tf.reduce_max(number_B), 1)
        columns_BM = tf.gather(self._columns, ids_BM)
        rows_W = tf.concat([rows.flat_values, [0]], 0)  # a batch may have no words
        starts_B1, there_B1 = tf.cast(rows.row_starts(), tf.int32)[:, None], there_B[:, None]
        place = tf.range(_PLACES)
        skips = SKIP * tf.range(_PLACES, dtype=tf.int64)
        ranks = tf.range(1, _PLACES + 1, dtype=tf.int64)

        def step(j: Any, costs_BD: Any, chosen: Any) -> tuple[Any, ...]:
            word_BD = tf.zeros_like(there_B1) + (j - BAND + place)
            real_BD = (word_BD >= 0) & (word_BD < there_B1)
            at_BD = tf.gather(rows_W, starts_B1 + tf.where(real_BD, word_BD, 0))
            fit_BD = tf.gather_nd(self._costs, tf.stack([at_BD, _like(columns_BM[:, j, None], at_BD)], -1))
            fit_BD = tf.where(real_BD, tf.cast(fit_BD, tf.int64), FAR)
            reached_BD = _running_minimum((costs_BD - skips) * RANKS + ranks) + skips * RANKS
            skipped_BD = tf.pad(costs_BD[:, 1:] + SKIP, [[0, 0], [0, 1]], constant_values=FAR) * RANKS
            best_BD = tf.minimum(reached_BD + fit_BD * RANKS, skipped_BD)
            chosen = chosen.write(j, tf.cast(best_BD % RANKS, tf.uint8))
            more = (j < number_B)[:, None]
            return j + 1, tf.where(more, tf.minimum(best_BD // RANKS, FAR), costs_BD), chosen

        first = tf.one_hot(tf.fill(tf.shape(there_B), BAND), _PLACES, tf.constant(0, tf.int64), FAR, dtype=tf.int64)
        chosen = tf.TensorArray(tf.uint8, size=longest, element_shape=[None, _PLACES], clear_after_read=False)
        _, costs_BD, chosen = tf.while_loop(lambda j, *_: j < longest, step, (0, first, chosen))

        passed_BD = number_B[:, None] - BAND + place
        left_BD = tf.cast(there_B1 - passed_BD, tf.int64)
        ends_BD = tf.where((passed_BD >= 0) & (left_BD >= 0), costs_BD + SKIP * left_BD, FAR)
        # The rank in the place of tf.argmin, which does not say which of equal ones it gives.
        end_B = tf.cast(tf.reduce_min(ends_BD * RANKS + tf.range(_PLACES, dtype=tf.int64), 1) % RANKS, tf.int32)
        return self._trace_back(end_B, number_B, chosen, tf.shape(ids_BM)[1]), tf.reduce_min(ends_BD, 1)

    @staticmethod
    def _trace_back(end_B: Any, number_B: Any, chosen: Any, width: Any) -> Any:
        """Follows the choices back from the last places; -> int32 [B, `width`]."""

        def back(j: Any, at_B: Any, words: Any) -> tuple[Any, ...]:
            choice_B = tf.cast(tf.gather(chosen.read(j), at_B, batch_dims=1), tf.int32)
            real_B, taken_B = j < number_B, choice_B > 0
            words = words.write(j, tf.where(real_B & taken_B, j - BAND + at_B, -1))
            before_B = tf.where(taken_B, choice_B - 1, at_B + 1)
            return j - 1, tf.where(real_B, before_B, at_B), words

        longest = chosen.size()
        words = tf.TensorArray(tf.int32, size=longest, element_shape=[None])
        *_, words = tf.while_loop(lambda j, *_: j >= 0, back, (longest - 1, end_B, words))
        found_BM = tf.transpose(tf.reshape(words.stack(), [longest, tf.size(end_B)]))
        return tf.pad(found_BM, [[0, 0], [0, width - longest]], constant_values=-1)


def _like(values: Any, wanted: Any) -> Any:
    return tf.broadcast_to(values, tf.shape(wanted))


def _running_minimum(values_BD: Any) -> Any:
    """[B, D] -> [B, D]: the least value up to each place."""
    shift = 1
    while shift < _PLACES:
        before = tf.pad(values_BD[:, :-shift], [[0, 0], [shift, 0]], constant_values=tf.int64.max)
        values_BD = tf.minimum(values_BD, before)
        shift *= 2
    return values_BD
