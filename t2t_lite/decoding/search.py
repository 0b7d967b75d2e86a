"""The loop of a search: steps of a model for all sentences of a batch.

There are two such loops. In a plain graph sentences leave the batch when they are done, and the model's state grows as
it is needed. In a program for XLA all sizes are fixed, and the loop ends when all sentences are done. On a GPU a step
takes as long for one sentence as for hundreds, so that nothing is gained by letting them go.

Legend: B sentences, K hypotheses of a sentence, L longest output.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from t2t_lite.decoding.constraint import Constraint
from t2t_lite.decoding.rules import NO_RULES, Rules
from t2t_lite.errors import UsageError
from t2t_lite.ids import PAD
from t2t_lite.layers.functions import use
from t2t_lite.ops.shortlisted import gather_softmax, no_shortlist, shortlisted_logits

State = dict[str, Any]


class Search(abc.ABC):
    """One search of a batch.

    In a plain graph, sentences that are done leave the batch when they are a quarter of it. So there is a loop around
    the loop. The inner one makes steps, and ends when the batch should shrink or the model's state is full. The outer
    one handles both cases.

    `fixed` holds what the inner loop does not change, with a row for each sentence still in the batch: "rows" in the
    result, "max_lengths", the "model"'s own, after `force` the "prefix" [B, P + 1], and after `shorten` the
    "candidates" [B, C] and their "softmax" layers. `beams` holds the rest: "index" of the step, "done" [B], "alive" [B,
    K, L] (the unfinished hypotheses), the model's "state", and the states of all "constraints". A subclass adds its
    own.

    Args:
        model: a `models.base.Model`.
        source: int32 [B, S], each sentence ended by 1, padded with 0.
        beam_size: K.
        extra_length, length_factor: see `longest_outputs`.
        constraints: on the symbols of these sentences' outputs; none: any may follow any.
        jit: the graph is for XLA. Then the sizes of `source` are known, and L follows from S. Rows of padding are done
            from the start.
        rules: see `Rules`.

    Attributes:
        restricted: whether some symbols may not follow some hypotheses.
    """

    def __init__(
        self,
        model: Any,
        source: Any,
        beam_size: int,
        extra_length: int,
        constraints: Sequence[Constraint],
        jit: bool,
        length_factor: float = 1.0,
        rules: Rules = NO_RULES,
    ) -> None:
        self.beam_size, self.model, self.constraints, self.jit = beam_size, model, tuple(constraints), jit
        self.rules, self.restricted = rules, bool(constraints) or rules != NO_RULES
        lengths = tf.math.count_nonzero(source, axis=1, dtype=tf.int32)
        max_lengths = longest_outputs(lengths, length_factor, extra_length)
        batch: Any = tf.shape(source)[0]
        longest: Any = tf.reduce_max(tf.concat([max_lengths, [1]], 0))  # a batch may be empty
        if jit:
            if not model.xla_search:
                raise NotImplementedError("the state of its searches has no fixed size (see Model.xla_search)")
            batch, longest = source.shape[0], longest_output(source.shape[1], length_factor, extra_length)
        memory = model.encode({"source": source})
        of_model, state, self.step_model = model.start(memory, beam_size, longest)
        self.fixed: State = {"rows": tf.range(batch), "model": of_model, "max_lengths": max_lengths}
        self.shape = (batch, beam_size, longest)
        self.beams: State = {
            "index": tf.constant(0),
            "done": tf.equal(lengths, 0) if jit else tf.zeros([batch], tf.bool),
            "alive": tf.zeros(self.shape, tf.int32),
            "state": state,
            "constraints": tuple(each.initial(batch, beam_size, longest) for each in self.constraints),
        }
        self.result = tf.zeros(self.shape, tf.int32), tf.zeros(self.shape[:2])

    def force(self, prefix: Any) -> None:
        """Lets the outputs begin with `prefix`, int32 [B, P], padded with 0; P is less than their longest length."""
        self.fixed["prefix"] = tf.pad(prefix, [[0, 0], [0, 1]])
        self.restricted = True

    def shorten(self, candidates: Any) -> None:
        """Lets each output have its own `candidates` alone, int32 [B, C], filled up with -1; see `Shortlist`."""
        self.fixed["candidates"] = candidates
        self.fixed["softmax"] = tuple(gather_softmax(m, candidates) for m in self.model.members().values())

    @abc.abstractmethod
    def _step(self, fixed: State, beams: State) -> State:
        """Returns `beams` after another step."""

    @abc.abstractmethod
    def _rank(self, beams: State) -> tuple[Any, Any]:
        """Returns the outputs int32 [B, K, L] and their scores float32 [B, K]."""

    def run(self) -> tuple[Any, Any]:
        """Returns what `_rank` gives for each sentence when it is done."""
        return self._search(self.fixed, self.beams, self.result)

    def _search(self, *state: Any) -> tuple[Any, Any]:
        """As `run`, from a given `fixed`, `beams` and empty result."""
        if self.jit:
            return self._rank(self._to_the_end(*state[:2]))
        final = tf.while_loop(
            lambda _, beams, __: tf.reduce_any(~beams["done"]),
            self._block,
            state,
            shape_invariants=tf.nest.map_structure(_any_length, state),
        )
        return self._report_done(*final)

    def _to_the_end(self, fixed: State, beams: State) -> State:
        """Makes steps until all sentences are done."""
        (beams,) = tf.while_loop(
            lambda beams: ~tf.reduce_all(beams["done"]), lambda beams: (self._step(fixed, beams),), (beams,)
        )
        return beams

    def _block(self, fixed: State, beams: State, result: tuple[Any, Any]) -> tuple[State, State, tuple[Any, Any]]:
        state = tf.cond(
            tf.reduce_any(beams["done"]),
            lambda: self._drop_done(fixed, beams, result),
            lambda: tf.nest.map_structure(tf.identity, (fixed, beams, result)),
        )
        fixed, beams, result = state
        beams["state"] = tf.cond(
            self.model.is_full(beams["state"]),
            lambda: self.model.renew(beams["state"], tf.shape(beams["alive"])[2] - beams["index"]),
            lambda: tf.nest.map_structure(tf.identity, beams["state"]),
        )
        (beams,) = tf.while_loop(
            self._continues,
            lambda state: (self._step(fixed, state),),
            (beams,),
            shape_invariants=(tf.nest.map_structure(_any_length, beams),),
        )
        return fixed, beams, result

    def _continues(self, beams: State) -> Any:
        done = tf.math.count_nonzero(beams["done"], dtype=tf.int32)
        return (4 * done < tf.size(beams["done"])) & ~self.model.is_full(beams["state"])

    def _drop_done(self, fixed: State, beams: State, result: tuple[Any, Any]) -> tuple[State, State, tuple[Any, Any]]:
        result = self._report_done(fixed, beams, result)
        stay = tf.where(~beams["done"])[:, 0]

        def keep(value: Any) -> Any:
            return tf.gather(value, stay) if len(value.shape) else value  # all but the index

        return *tf.nest.map_structure(keep, (fixed, beams)), result

    def _report_done(self, fixed: State, beams: State, result: tuple[Any, Any]) -> tuple[Any, Any]:
        """The result, updated with what has been found for the sentences still in the batch."""
        ids, scores = (
            tf.tensor_scatter_nd_update(old, fixed["rows"][:, None], new)
            for old, new in zip(result, self._rank(beams), strict=True)
        )
        return ids, scores

    def _logits(self, fixed: State, beams: State) -> tuple[Any, Any]:
        """The model's float32 logits [B, K, V] of this step, or [B, K, C] of candidates, and its state after it."""
        index = beams["index"]
        previous = tf.where(index > 0, beams["alive"][:, :, tf.maximum(index - 1, 0)], PAD)
        with use(self._softmax_layers(fixed)):
            logits, state = self.step_model(previous, index, fixed["model"], beams["state"])
        if "candidates" in fixed and logits.shape[-1] is not None:
            raise UsageError(no_shortlist(self.model))
        # Changes no value. Without it TensorFlow's optimizer would cast bfloat16 logits for each use in another shape.
        return tf.ensure_shape(logits, logits.shape), state

    def _softmax_layers(self, fixed: State) -> Iterator[tuple[Any, Any]]:
        """Yields, after `shorten`, each model and what stands for its softmax layer."""
        if "softmax" in fixed:
            for model, part in zip(self.model.members().values(), fixed["softmax"], strict=True):
                yield model, functools.partial(shortlisted_logits, part)

    def _permit(self, fixed: State, beams: State, logits: Any) -> Any:
        """The logits, minus infinity for symbols that may not come next; the same tensor if any may.

        Rules and constraints forbid symbols, and a prefix all but one, whatever those say of it.
        """
        permitted = self.rules.permit(logits, beams["alive"], beams["index"])
        for constraint, state in zip(self.constraints, beams["constraints"], strict=True):
            allowed = constraint.allowed(state, fixed["max_lengths"] - beams["index"])
            permitted = tf.where(allowed, permitted, -float("inf"))
        if "prefix" in fixed:
            prefix = fixed["prefix"]
            forced = prefix[:, tf.minimum(beams["index"], tf.shape(prefix)[1] - 1), None, None]
            alone = tf.where(tf.equal(tf.range(logits.shape[-1]), forced), logits, -float("inf"))
            permitted = tf.where(tf.equal(forced, PAD), permitted, alone)
        return permitted

    def _constraints_after(self, beams: State, symbols: Any, parents: Any = None) -> tuple[State, ...]:
        """The states of the constraints after `symbols` [B, N] of `parents` [B, N]; None: each of its own."""
        states = beams["constraints"]
        if parents is not None:
            states = tf.nest.map_structure(lambda value: tf.gather(value, parents, batch_dims=1), states)
        pairs = zip(self.constraints, states, strict=True)
        return tuple(constraint.advance(state, symbols) for constraint, state in pairs)


def longest_output(length: int, factor: float, extra: int) -> int:
    """Returns the longest length of an output for a source of `length` pieces, both with their end symbols.

    It is factor * length, rounded up, + extra, and at least 1. The product is float32, as in Marian.
    """
    return max(int(np.ceil(np.float32(factor) * np.float32(length))) + extra, 1)


def longest_outputs(lengths: Any, factor: float, extra: int) -> Any:
    """Returns `longest_output` of each of int32 [B] lengths."""
    scaled = tf.math.ceil(tf.constant(factor, tf.float32) * tf.cast(lengths, tf.float32))
    return tf.maximum(tf.cast(scaled, tf.int32) + extra, 1)


def with_symbol(ids: Any, index: Any, symbols: Any) -> Any:
    """Returns int [B, K, L] with `symbols` [B, K] at position `index`."""
    here = tf.range(tf.shape(ids)[2]) == index
    return tf.where(here, symbols[:, :, None], ids)


def _any_length(value: Any) -> tf.TensorShape:
    """The number of sentences changes; other sizes stay, unless the graph does not know them."""
    return tf.TensorShape([None, *value.shape[1:]] if len(value.shape) else [])
