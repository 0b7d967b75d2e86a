"""Constraint of a parser: each hypothesis can become a tree over exactly the words of its sentence.

Legend: B sentences, K hypotheses of a sentence, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from t2t_lite.decoding.constraint import Constraint
from t2t_lite.ids import EOS
from t2t_lite.text.trees.linearize import TreeGrammar

MOST_OPENED = 32  # phrases that open between two words: several times what treebanks have


class TreeConstraint(Constraint):
    """A tag for each word, brackets that match, no phrase without words, one root.

    A phrase may open only if all words and all brackets would still fit into the output's longest length. Where that
    is too short from the start, the output is cut there.

    Args:
        grammar: the parts of the symbols.
        sizes: int32 [B], the number of words of each sentence.
    """

    def __init__(self, grammar: TreeGrammar, sizes: Any) -> None:
        self._tags, self._opens, self._closes = grammar.tags, grammar.opens, grammar.closes
        self._is_end = [i == EOS for i in range(len(grammar.tags))]
        self._sizes = sizes

    def initial(self, batch: Any, beam_size: int, longest: Any) -> dict[str, Any]:
        left = tf.repeat(self._sizes[:, None], beam_size, axis=1)
        return {
            "left": left,  # words without a tag
            "depth": tf.zeros_like(left),  # phrases that are open
            "opened": tf.zeros_like(left),  # of these, those that have opened since the last tag or closing bracket
            "labels": tf.zeros([*tf.unstack(tf.shape(left)), longest], tf.int32),  # of open phrases, from the root
        }

    def allowed(self, state: dict[str, Any], remaining: Any) -> Any:
        left, depth, opened = state["left"], state["depth"], state["opened"]
        label = tf.gather(state["labels"], tf.maximum(depth - 1, 0), batch_dims=2)
        # After a bracket that opens: the words, the closing brackets and the end symbol.
        fits = left + (depth + 1) + 1 <= remaining[:, None] - 1
        may_open = (left > 0) & ((depth == 0) | ((opened < MOST_OPENED) & fits))
        may_tag = (left > 0) & (depth > 0)
        may_close = (depth > 0) & (opened == 0) & ((depth > 1) | (left == 0))
        may_end = (depth == 0) & (left == 0)
        return (
            (may_open[..., None] & (tf.constant(self._opens) > 0))
            | (may_tag[..., None] & self._tags)
            | (may_close[..., None] & tf.equal(label[..., None], self._closes))
            | (may_end[..., None] & self._is_end)
        )

    def advance(self, state: dict[str, Any], symbols: Any) -> dict[str, Any]:
        label = tf.gather(self._opens, symbols)
        opens, closes, is_tag = label > 0, tf.gather(self._closes, symbols) > 0, tf.gather(self._tags, symbols)
        depth = state["depth"]
        here = tf.range(tf.shape(state["labels"])[2]) == depth[..., None]
        return {
            "left": state["left"] - tf.cast(is_tag, tf.int32),
            "depth": depth + tf.cast(opens, tf.int32) - tf.cast(closes, tf.int32),
            "opened": tf.where(opens, state["opened"] + 1, tf.where(closes | is_tag, 0, state["opened"])),
            "labels": tf.where(here & opens[..., None], label[..., None], state["labels"]),
        }
