"""Diverse beam search (Vijayakumar et al., 2018): groups of the beam that avoid each other's symbols.

Legend: B sentences, K beam size, G groups, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from t2t_lite.decoding.beam_search import BeamSearch
from t2t_lite.decoding.search import State, with_symbol
from t2t_lite.ids import EOS

_NEVER = -float("inf")
_OF_HYPOTHESES = ("alive", "alive_logp", "finished", "scores")


class DiverseSearch(BeamSearch):
    """A beam search of G groups of K / G hypotheses, each of which finishes outputs of its own.

    At each step the groups choose in turn. For a group, a candidate's log-probability is lower by `strength` times the
    number of unfinished hypotheses of earlier groups that have just got the same symbol (Hamming diversity, equation 5
    and section 4 there). That decides what is chosen; scores stay log-probability / length penalty, where those of
    fairseq and transformers keep what was taken off. The result are the outputs of all groups by their scores. Not in
    the paper: a group does not finish what an earlier one has finished, so that no output is there twice.

    Args:
        arguments: those of `BeamSearch`.
        groups: G, a divisor of K and at least 2.
        strength: lambda of the paper, for all groups.
    """

    def __init__(self, *arguments: Any, groups: int, strength: float) -> None:
        super().__init__(*arguments)
        self.size, self.strength = self.beam_size // groups, strength
        first = [0.0] + [_NEVER] * (self.size - 1)
        self.beams["alive_logp"] = tf.tile([first * groups], [self.shape[0], 1])

    def _continue(self, fixed: State, beams: State, logits: Any) -> tuple[State, Any, Any]:
        values = self._log_probs(fixed, beams, logits) + beams["alive_logp"][:, :, None]
        used = tf.zeros_like(values[:, 0])  # [B, V]: hypotheses of the groups so far that have each symbol
        parts: list[tuple[State, Any, Any]] = []
        for start in range(0, self.beam_size, self.size):
            group = slice(start, start + self.size)
            of_group: State = {name: beams[name][:, group] for name in _OF_HYPOTHESES} | {"index": beams["index"]}
            possible = self._without_repeats(of_group, values[:, group], [earlier for earlier, _, _ in parts])
            new, symbols, parents = self._continue_group(of_group, possible, used)
            alive = tf.cast(new["alive_logp"] > _NEVER, tf.float32)
            used += tf.reduce_sum(tf.one_hot(symbols, values.shape[2]) * alive[:, :, None], 1)
            parts.append((new, symbols, parents + start))
        found: tuple[State, Any, Any] = tf.nest.map_structure(lambda *of_groups: tf.concat(of_groups, 1), *parts)
        return found

    def _without_repeats(self, beams: State, values: Any, earlier: Sequence[State]) -> Any:
        """The values [B, K / G, V], minus infinity for the end of what earlier groups have finished.

        Equal outputs end at the same step, so that it is enough to look at what those groups have after theirs.
        """
        if not earlier:
            return values
        finished, scores = (tf.concat([group[name] for group in earlier], 1) for name in ("finished", "scores"))
        ended = with_symbol(beams["alive"], beams["index"], tf.fill(tf.shape(beams["alive"])[:2], EOS))
        equal = tf.reduce_all(tf.equal(ended[:, :, None], finished[:, None]), -1) & (scores > _NEVER)[:, None]
        repeats = tf.reduce_any(equal, -1, keepdims=True) & tf.equal(tf.range(values.shape[2]), EOS)
        return tf.where(repeats, _NEVER, values)

    def _continue_group(self, beams: State, values: Any, used: Any) -> tuple[State, Any, Any]:
        """As `_continue`, of a group, by the log-probabilities [B, K / G, V] of its candidates."""
        vocabulary = values.shape[2]
        flat = tf.reshape(values, [-1, self.size * vocabulary])
        chosen_by = tf.reshape(values - self.strength * used[:, None], [-1, self.size * vocabulary])
        order, places = tf.math.top_k(chosen_by, min(2 * self.size, self.size * vocabulary))
        logp, symbols = tf.gather(flat, places, batch_dims=1), places % vocabulary
        ends = tf.equal(symbols, EOS)
        _, chosen = tf.math.top_k(tf.where(ends, _NEVER, order), self.size)
        alive_logp = tf.gather(tf.where(ends, _NEVER, logp), chosen, batch_dims=1)
        return self._choose(beams, logp, symbols, places // vocabulary, alive_logp, chosen)

    def _is_settled(self, fixed: State, length: Any, alive_logp: Any, scores: Any) -> Any:
        """As of a beam search, of each group."""
        could_reach = self._by_group(alive_logp, tf.reduce_max) / self._penalty(fixed["max_lengths"])[:, None]
        best, worst = (self._by_group(scores, reduce) for reduce in (tf.reduce_max, tf.reduce_min))
        of_all = tf.reduce_max(best, 1, keepdims=True)
        to_beat = tf.where(self.early_stop, tf.repeat(of_all, tf.shape(best)[1], 1), worst)
        settled = ((to_beat >= could_reach) & (to_beat > _NEVER)) | tf.equal(could_reach, _NEVER)  # none can continue
        return (length >= fixed["max_lengths"]) | tf.reduce_all(settled, 1)

    def _by_group(self, values: Any, reduce: Any) -> Any:
        """[B, K] -> [B, G]"""
        return reduce(tf.reshape(values, [-1, self.beam_size // self.size, self.size]), 2)
