"""Beam search with length penalty (section 6.1; Wu et al., 2016, equation 14).

Legend: B sentences, K beam size, L longest output.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import tensorflow as tf

from t2t_lite.decoding.constraint import Constraint
from t2t_lite.decoding.rules import NO_RULES, Rules
from t2t_lite.decoding.search import Search, State, with_symbol
from t2t_lite.ids import EOS, PAD
from t2t_lite.ops.prepared import prepare_weights, read_weights_once
from t2t_lite.ops.top_k import top_k

_NEVER = -float("inf")


def length_penalty(length: Any, alpha: float, form: str = "gnmt") -> Any:
    """((5 + length) / 6)^alpha, or length^alpha if the form is "power"; `length` counts the end symbol."""
    length = tf.cast(length, tf.float32)
    return tf.pow(length if form == "power" else (5.0 + length) / 6.0, alpha)


def fewest_candidates(beam_size: int, never: Collection[int]) -> int:
    """Returns how many of the likeliest symbols a step looks at: symbols that are no output may be among them."""
    return 2 * beam_size + len(never)


def beam_search(
    model: Any,
    source: Any,
    *,
    beam_size: int,
    alpha: float,
    extra_length: int,
    early_stop: Any = True,
    prepack: bool = False,
    constraints: Sequence[Constraint] = (),
    jit: bool = False,
    form: str = "gnmt",
    never: Collection[int] = (PAD,),
    length_factor: float = 1.0,
    rules: Rules = NO_RULES,
    prefix: Any = None,
    kind: Callable[..., BeamSearch] | None = None,
    candidates: Any = None,
) -> tuple[Any, Any]:
    """Finds the outputs of highest log-probability / length_penalty.

    Each step keeps the K best unfinished hypotheses and, separately, the K best finished ones, out of 2K candidates. A
    sentence is done when it has reached its longest length, or when no unfinished hypothesis can still win.
    Log-probabilities only fall, so the best one divided by the penalty of the longest length is an upper bound of the
    score. What happens to a sentence does not depend on the others in its batch.

    Args:
        model: a `models.base.Model`.
        source: int32 [B, S], each sentence ended by 1, padded with 0.
        beam_size: K; 1 is greedy search.
        alpha: exponent of the length penalty, at least 0.
        extra_length: outputs have at most the source's length, times `length_factor`, plus this many pieces, end
            symbols counted.
        early_stop: bool or bool scalar; true: done when the best output is settled; false: when all K are.
        prepack: the model's weights are final, and `ops.prepacked.is_supported`.
        constraints: see `Search`; log-probabilities stay those of the model among all symbols.
        jit: see `Search`.
        form: of the length penalty, "gnmt" or "power".
        never: symbols that no output has, whatever their probability.
        length_factor: see `extra_length`.
        rules: see `Rules`; log-probabilities stay those of the model among all symbols, unless a repetition penalty
            lowers them.
        prefix: see `Search.force`; scores are of whole outputs. None: outputs may begin with anything.
        kind: makes a search that chooses hypotheses in another way; None: `BeamSearch`.
        candidates: see `Search.shorten`, at least `fewest_candidates`; log-probabilities are those among them. They
            go with none of jit, constraints, rules, prefix and kind. None: all symbols.

    Returns:
        int32 [B, K, L], best first, ended by 1 and padded with 0; float32 [B, K] scores. An unfinished hypothesis has
        no end symbol, is scored by the same formula and ranks after all finished ones.
    """
    with read_weights_once(model):
        parts = (model, source, beam_size, alpha, extra_length, early_stop, constraints, jit, length_factor, rules)
        search = (kind or BeamSearch)(*parts)
        search.form, search.never = form, tuple(never)
        if prefix is not None:
            search.force(prefix)
        if candidates is not None:
            search.shorten(candidates)
        with prepare_weights(model, prepack=prepack, jit=jit):
            return search.run()


class BeamSearch(Search):
    """One call of `beam_search`.

    It adds to `beams` the "length" [B] and log-probabilities "alive_logp" [B, K] of the unfinished hypotheses, and the
    "finished" ones [B, K, L] with their "scores" [B, K].
    """

    def __init__(
        self,
        model: Any,
        source: Any,
        beam_size: int,
        alpha: float,
        extra_length: int,
        early_stop: Any,
        constraints: Sequence[Constraint],
        jit: bool,
        length_factor: float,
        rules: Rules,
    ) -> None:
        super().__init__(model, source, beam_size, extra_length, constraints, jit, length_factor, rules)
        self.alpha, self.early_stop = alpha, early_stop
        self.form = "gnmt"
        self.never: tuple[int, ...] = (PAD,)
        batch = self.shape[0]
        self.beams |= {
            "length": tf.zeros([batch], tf.int32),
            # At first all beams are equal, so only one may continue.
            "alive_logp": tf.tile([[0.0] + [_NEVER] * (beam_size - 1)], [batch, 1]),
            "finished": tf.zeros(self.shape, tf.int32),
            "scores": tf.fill([batch, beam_size], _NEVER),
        }

    def _step(self, fixed: State, beams: State) -> State:
        index = beams["index"]
        logits, state = self._logits(fixed, beams)
        new, symbols, parents = self._continue(fixed, beams, logits)
        new["length"] = tf.zeros_like(beams["length"]) + (index + 1)
        # A sentence that is done stays as it is, whatever its neighbours need.
        for name, value in new.items():
            done = tf.reshape(beams["done"], [-1] + [1] * (len(value.shape) - 1))
            new[name] = tf.where(done, beams[name], value)
        new["done"] = beams["done"] | self._is_settled(fixed, index + 1, new["alive_logp"], new["scores"])
        new["index"] = index + 1
        new["state"] = self.model.reorder(state, parents)
        new["constraints"] = self._constraints_after(beams, symbols, parents)
        return new

    def _continue(self, fixed: State, beams: State, logits: Any) -> tuple[State, Any, Any]:
        """The hypotheses after this step; of the unfinished ones, the last symbols and the parents, [B, K]."""
        logp, symbols, parents = self._candidates(fixed, beams, logits)
        # Alive: the best candidates that do not end here.
        alive = tf.math.top_k(tf.where(tf.equal(symbols, EOS), _NEVER, logp), self.beam_size)
        return self._choose(beams, logp, symbols, parents, *alive)

    def _choose(
        self, beams: State, logp: Any, symbols: Any, parents: Any, alive_logp: Any, chosen: Any
    ) -> tuple[State, Any, Any]:
        """As `_continue`, of candidates [B, N]; `chosen` [B, K] are those that stay alive, with `alive_logp`."""
        index = beams["index"]
        ids = with_symbol(tf.gather(beams["alive"], parents, batch_dims=1), index, symbols)
        # Finished: those from before and the candidates that end here.
        scores = tf.where(tf.equal(symbols, EOS), logp / self._penalty(index + 1), _NEVER)
        scores, best = tf.math.top_k(tf.concat([beams["scores"], scores], 1), beams["scores"].shape[1])
        new: State = {
            "alive": tf.gather(ids, chosen, batch_dims=1),
            "alive_logp": alive_logp,
            "finished": tf.gather(tf.concat([beams["finished"], ids], 1), best, batch_dims=1),
            "scores": scores,
        }
        return new, tf.gather(symbols, chosen, batch_dims=1), tf.gather(parents, chosen, batch_dims=1)

    def _penalty(self, length: Any) -> Any:
        return length_penalty(length, self.alpha, self.form)

    def _candidates(self, fixed: State, beams: State, logits: Any) -> tuple[Any, Any, Any]:
        """The 2K best continuations: log-probabilities, symbols, parents [B, 2K]."""
        penalises = self.rules.repetition_penalty > 1
        if penalises:
            values = tf.nn.log_softmax(logits) if self.beam_size > 1 else logits
            logits = self.rules.penalise(values, beams["alive"], beams["index"])
        number = fewest_candidates(self.beam_size, self.never)
        shortlisted = "candidates" in fixed
        number = number if shortlisted else min(number, logits.shape[-1])
        largest = tf.math.top_k if self.jit or shortlisted else top_k
        best, symbols = largest(self._permit(fixed, beams, logits), number)
        if not self.restricted:
            # Log-probabilities are computed from that of the best symbol, whose probability is never too small for
            # float32. This takes one pass over the logits; a log-softmax takes three.
            of_best = tf.math.log(tf.gather(tf.nn.softmax(logits), symbols[:, :, :1], batch_dims=2))
            logp = best - best[:, :, :1] + of_best
        elif penalises and self.beam_size > 1:
            logp = best
        else:
            logp = best - tf.reduce_logsumexp(logits, axis=-1, keepdims=True)
        if shortlisted:
            symbols = tf.maximum(tf.gather(fixed["candidates"], symbols, batch_dims=1), PAD)
        logp += beams["alive_logp"][:, :, None]
        for symbol in self.never:
            logp = tf.where(tf.equal(symbols, symbol), _NEVER, logp)
        flat = (tf.shape(logp)[0], self.beam_size * number)
        # A greedy search looks at the best symbol alone: an end symbol in second place would finish a worse output.
        wanted = 2 * self.beam_size if self.beam_size > 1 else 1
        logp, chosen = tf.math.top_k(tf.reshape(logp, flat), min(wanted, self.beam_size * number))
        return logp, tf.gather(tf.reshape(symbols, flat), chosen, batch_dims=1), chosen // number

    def _log_probs(self, fixed: State, beams: State, logits: Any) -> Any:
        """What the next symbol adds to a hypothesis' log-probability [B, K, V]; minus infinity if it may not come."""
        logp = tf.nn.log_softmax(logits)
        if self.rules.repetition_penalty > 1:
            values = logp if self.beam_size > 1 else logits
            logp = self.rules.penalise(values, beams["alive"], beams["index"])
            logp = logp if self.beam_size > 1 else tf.nn.log_softmax(logp)
        never = tf.reduce_any(tf.equal(tf.range(logits.shape[-1])[:, None], self.never), 1)
        return tf.where(never, _NEVER, self._permit(fixed, beams, logp))

    def _is_settled(self, fixed: State, length: Any, alive_logp: Any, scores: Any) -> Any:
        """bool [B]: at the longest length, or nothing alive can change the result."""
        could_reach = tf.reduce_max(alive_logp, 1) / self._penalty(fixed["max_lengths"])
        to_beat = tf.where(self.early_stop, tf.reduce_max(scores, 1), tf.reduce_min(scores, 1))
        return (length >= fixed["max_lengths"]) | ((to_beat >= could_reach) & (to_beat > _NEVER))

    def _rank(self, state: dict[str, Any]) -> tuple[Any, Any]:
        """Finished hypotheses in order, then unfinished ones in the places that are left."""
        unfinished = state["alive_logp"] / self._penalty(state["length"])[:, None]
        places = unfinished - self._behind(state)
        # Sorted first: so far behind, float32 does not tell close scores apart, and top_k then keeps their order.
        unfinished, order = tf.math.top_k(unfinished, self.beam_size)
        places, alive = (tf.gather(values, order, batch_dims=1) for values in (places, state["alive"]))
        scores = tf.concat([state["scores"], unfinished], 1)
        _, chosen = tf.math.top_k(tf.concat([state["scores"], places], 1), self.beam_size)
        ids = tf.gather(tf.concat([state["finished"], alive], 1), chosen, batch_dims=1)
        return ids, tf.gather(scores, chosen, batch_dims=1)

    def _behind(self, state: State) -> Any:
        """By how much unfinished hypotheses rank lower, broadcastable to [B, K]; more than scores differ."""
        return 1e6
