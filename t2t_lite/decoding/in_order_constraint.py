"""Constraint of a parser that writes trees in order (text/trees/in_order.py), as `TreeConstraint` is of brackets.

Legend: B sentences, K hypotheses of a sentence, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from t2t_lite.decoding.tree_constraint import MOST_OPENED, TreeConstraint


class InOrderConstraint(TreeConstraint):
    """A tag for each word, brackets that match, one root; a phrase opens only after its first child.

    The state is that of `TreeConstraint`, with "opened" counted since the last tag, so that no phrases without further
    words open one after the other for ever; "ended": 1 after a tag and 2 after a closing bracket, else 0.
    """

    def initial(self, batch: Any, beam_size: int, longest: Any) -> dict[str, Any]:
        state = super().initial(batch, beam_size, longest)
        return {**state, "ended": tf.zeros_like(state["left"])}

    def allowed(self, state: dict[str, Any], remaining: Any) -> Any:
        left, depth, opened, ended = (state[name] for name in ("left", "depth", "opened", "ended"))
        label = tf.gather(state["labels"], tf.maximum(depth - 1, 0), batch_dims=2)
        room = remaining[:, None] - 1  # after the next symbol
        is_whole = (depth == 0) & (left == 0) & (ended == 2)
        # After a bracket that opens: the words, the closing brackets and the end symbol.
        fits = (opened < MOST_OPENED) & (left + (depth + 1) + 1 <= room)
        # What has ended outside of all phrases needs one around it, unless it is the tree.
        may_open = (ended > 0) & (fits | ((depth == 0) & ~is_whole))
        may_tag = (left > 0) & ((depth > 0) | (ended == 0))
        # Where words are left, the root that closes needs another one around it: two brackets and the end symbol.
        may_close = (depth > 0) & ((depth > 1) | (left == 0) | ((opened < MOST_OPENED) & (left + 3 <= room)))
        return (
            (may_open[..., None] & (tf.constant(self._opens) > 0))
            | (may_tag[..., None] & self._tags)
            | (may_close[..., None] & tf.equal(label[..., None], self._closes))
            | (is_whole[..., None] & self._is_end)
        )

    def advance(self, state: dict[str, Any], symbols: Any) -> dict[str, Any]:
        closes, is_tag = tf.gather(self._closes, symbols) > 0, tf.gather(self._tags, symbols)
        opens = tf.gather(self._opens, symbols) > 0
        opened = tf.where(is_tag, 0, state["opened"] + tf.cast(opens, tf.int32))
        ended = tf.where(closes, 2, tf.cast(is_tag, tf.int32))
        return {**super().advance(state, symbols), "opened": opened, "ended": ended}
