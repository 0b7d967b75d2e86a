"""Phrases that outputs must have: lexically constrained search with dynamic beam allocation (Post and Vilar, 2018).

Legend: B sentences, K beam size, P phrases of a sentence, M pieces of the longest, N candidates, V vocabulary, C pieces
of all phrases of a sentence.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from t2t_lite.decoding.beam_search import BeamSearch
from t2t_lite.decoding.constraint import Constraint
from t2t_lite.decoding.search import State
from t2t_lite.ids import EOS, PAD

_NEVER = -float("inf")


class PhraseConstraint(Constraint):
    """No hypothesis ends before it has all phrases of its sentence.

    Phrases may overlap, and one occurrence serves for two phrases that are equal. All places at which phrases may have
    begun are followed at the same time (Shift-And; Baeza-Yates and Gonnet, 1992).

    Args:
        phrases: int32 [B, P, M], padded with 0; a phrase of padding is none.
        vocab_size: V.
    """

    def __init__(self, phrases: Any, vocab_size: int) -> None:
        self._phrases, self._vocab_size = phrases, vocab_size

    def initial(self, batch: Any, beam_size: int, longest: Any) -> dict[str, Any]:
        phrases = tf.repeat(self._phrases[:, None], beam_size, 1)
        return {
            "phrases": phrases,  # [B, K, P, M]: sentences that are done take theirs with them
            "matches": tf.zeros_like(phrases, tf.bool),  # whether the last m symbols are the phrase's first m
            "met": tf.equal(phrases[..., 0], PAD),  # [B, K, P]
        }

    def allowed(self, state: dict[str, Any], remaining: Any) -> Any:
        return tf.reduce_all(state["met"], -1, keepdims=True) | (tf.range(self._vocab_size) != EOS)

    def advance(self, state: dict[str, Any], symbols: Any) -> dict[str, Any]:
        phrases, matches = state["phrases"], state["matches"]
        before = tf.pad(matches[..., :-1], [[0, 0], [0, 0], [0, 0], [1, 0]], constant_values=True)
        matches = before & tf.equal(phrases, symbols[:, :, None, None])
        last = tf.not_equal(phrases, PAD) & tf.equal(tf.pad(phrases[..., 1:], [[0, 0]] * 3 + [[0, 1]]), PAD)
        return {"phrases": phrases, "matches": matches, "met": state["met"] | tf.reduce_any(matches & last, -1)}


def next_symbols(state: dict[str, Any]) -> Any:
    """Returns the symbols by which the phrases would go further, int32 [B, K, P]; PAD for those that are met."""
    following = tf.gather(state["phrases"], _begun(state), batch_dims=3)
    return tf.where(state["met"], PAD, following)


def banks(state: dict[str, Any]) -> Any:
    """Returns how many pieces of its phrases a hypothesis has, int32 [B, K]: of those that are met, and of one more.

    That one is the one of which it has begun most. Others that it has begun would be lost with the next symbol, so that
    there is always one that leads into a higher bank.
    """
    met_pieces = tf.where(state["met"], _lengths(state), 0)
    return tf.reduce_sum(met_pieces, -1) + tf.reduce_max(_begun(state), -1)


def _lengths(state: dict[str, Any]) -> Any:
    return tf.math.count_nonzero(state["phrases"], -1, dtype=tf.int32)


def _begun(state: dict[str, Any]) -> Any:
    """Of each phrase the number of its pieces that the last symbols are, int32 [B, K, P]; 0 if it is met."""
    matches = state["matches"]
    longest = tf.reduce_max(tf.where(matches, tf.range(1, tf.shape(matches)[-1] + 1), 0), -1)
    return tf.where(state["met"], 0, longest)


class PhraseSearch(BeamSearch):
    """A beam search whose hypotheses share the beam by how much of their phrases they have (section 3 there).

    Candidates are the 2K best continuations (1 if K is 1), the best one of each hypothesis, and of each those by which
    a phrase begins or goes further. A bank holds those with the same number of pieces of phrases. Banks 0 to C have
    K // (C + 1) places each, and bank C the rest; places that a bank does not fill go to the one below it, those of
    bank 0 to bank C, as in Sockeye. So the highest bank rises at each step, and outputs that end have all phrases.
    Not in the paper: unless K is 1, the end of each hypothesis that has all phrases is a candidate, so that outputs end
    whose end is never among the best continuations. A sentence without phrases is searched as by `BeamSearch`.

    The last of the constraints is a `PhraseConstraint`.
    """

    def _continue(self, fixed: State, beams: State, logits: Any) -> tuple[State, Any, Any]:
        values = self._log_probs(fixed, beams, logits) + beams["alive_logp"][:, :, None]
        vocabulary = values.shape[2]
        flat = tf.reshape(values, [-1, self.beam_size * vocabulary])
        wanted = 2 * self.beam_size if self.beam_size > 1 else 1
        _, best = tf.math.top_k(flat, min(wanted, self.beam_size * vocabulary))
        rows = tf.range(self.beam_size) * vocabulary  # where PAD is, which never comes and stands for none
        of_phrases = beams["constraints"][-1]
        pieces = tf.reduce_sum(_lengths(of_phrases), -1)[:, :1]
        best_of_each = tf.where(pieces > 0, tf.argmax(values, 2, tf.int32), PAD) + rows
        further = tf.reshape(next_symbols(of_phrases) + rows[:, None], [tf.shape(values)[0], -1])
        ends = tf.where((pieces > 0) & (self.beam_size > 1), EOS, PAD) + rows
        places = tf.concat([best, best_of_each, further, ends], 1)
        earlier = tf.linalg.band_part(tf.equal(places[:, :, None], places[:, None]), -1, 0)
        is_first = tf.math.count_nonzero(earlier, 2) == 1
        logp = tf.where(is_first, tf.gather(flat, places, batch_dims=1), _NEVER)
        symbols, parents = places % vocabulary, places // vocabulary
        after = self._constraints_after(beams, symbols, parents)[-1]
        unfinished = tf.where(tf.equal(symbols, EOS), _NEVER, logp)
        most = tf.reduce_prod(tf.shape(after["phrases"])[2:])
        has_place = allocate(unfinished, banks(after), pieces[:, 0], most, self.beam_size)
        alive = tf.math.top_k(tf.where(has_place, unfinished, _NEVER), self.beam_size)
        return self._choose(beams, logp, symbols, parents, *alive)

    def _behind(self, state: State) -> Any:
        """More for those that lack more pieces."""
        of_phrases = state["constraints"][-1]
        lacking = tf.reduce_sum(_lengths(of_phrases), -1) - banks(of_phrases)
        return 1e6 + 1e4 * tf.cast(lacking, tf.float32)


def allocate(logp: Any, bank: Any, pieces: Any, most: Any, beam_size: int) -> Any:
    """Returns which candidates have a place in the beam, bool [B, N], at most K of a sentence.

    Args:
        logp: float32 [B, N]; minus infinity for what is no candidate.
        bank: int32 [B, N].
        pieces: C, int32 [B].
        most: at least the largest C, a scalar that XLA can know.
        beam_size: K.
    """
    number = tf.range(most + 1)  # of banks; sentences have fewer
    is_there = logp > _NEVER
    counts = tf.reduce_sum(tf.cast(tf.equal(bank[:, :, None], number) & is_there[:, :, None], tf.int32), 1)
    size = beam_size // (pieces + 1)
    last = tf.equal(number, pieces[:, None])
    sizes = tf.where(number <= pieces[:, None], size[:, None], 0)
    sizes += tf.where(last, (beam_size - size * (pieces + 1))[:, None], 0)
    # What bank i and those above it leave over, [banks, B].
    left = tf.scan(
        lambda over, each: tf.maximum(over + each, 0), tf.transpose(sizes - counts), tf.zeros_like(pieces), reverse=True
    )
    from_above = tf.transpose(tf.concat([left[1:], tf.zeros_like(left[:1])], 0))
    sizes += from_above + tf.where(last, left[0][:, None], 0)
    better = (logp[:, None] > logp[:, :, None]) | (
        tf.equal(logp[:, None], logp[:, :, None]) & (tf.range(tf.shape(logp)[1]) < tf.range(tf.shape(logp)[1])[:, None])
    )
    rank = tf.math.count_nonzero(better & tf.equal(bank[:, None], bank[:, :, None]), 2, dtype=tf.int32)
    return is_there & (rank < tf.gather(sizes, bank, batch_dims=1))
