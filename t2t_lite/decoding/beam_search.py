"""Beam search with length penalty (section 6.1; Wu et al., 2016, equation 14).

Legend: B sentences, K beam size, L longest output.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from t2t_lite.ids import EOS, PAD
from t2t_lite.ops.prepared import prepare_weights, weights_read_once
from t2t_lite.ops.top_k import top_k

_NEVER = -float("inf")


def length_penalty(length: Any, alpha: float) -> Any:
    """((5 + length) / 6)^alpha; `length` counts the end symbol."""
    return tf.pow((5.0 + tf.cast(length, tf.float32)) / 6.0, alpha)


def beam_search(
    model: Any,
    source: Any,
    *,
    beam_size: int,
    alpha: float,
    extra_length: int,
    early_stop: Any = True,
    prepack: bool = False,
) -> tuple[Any, Any]:
    """Finds the outputs of highest log-probability / length_penalty.

    Each step keeps the K best unfinished hypotheses and, apart from them, the K best finished ones, out of 2K
    candidates. A sentence is done when it has reached its longest length, or when no unfinished hypothesis can still
    win: log-probabilities only fall, so the best one's value over the longest length's penalty bounds its score.
    What happens to a sentence does not depend on the others in its batch.

    Args:
        model: a `models.base.Model`.
        source: int32 [B, S], each sentence ended by 1, padded with 0.
        beam_size: K; 1 is greedy search.
        alpha: exponent of the length penalty, at least 0.
        extra_length: outputs have at most the source's length plus this many pieces, end symbols counted.
        early_stop: bool or bool scalar; done when the best output is settled; otherwise when all K are.
        prepack: the model's weights are final, and `ops.prepacked.is_supported`.

    Returns:
        int32 [B, K, L], best first, ended by 1 and padded with 0; float32 [B, K] scores. An unfinished hypothesis has
        no end symbol, is scored by the same formula and ranks after all finished ones.
    """
    with weights_read_once(model):
        search = _Search(model, source, beam_size, alpha, extra_length, early_stop)
        with prepare_weights(model, prepack=prepack):
            return search.run()


State = dict[str, Any]


class _Search:
    """One call of `beam_search`.

    Sentences that are done leave the batch when they are a quarter of it. So there are two loops: the inner one makes
    steps, and ends when the batch should shrink or the model's state is full; the outer one sees to both.

    What the inner loop does not change is in `fixed`, a row for each sentence there still is: "rows" in the result,
    "max_lengths", and the "model"'s own. The rest is in `beams`, with the model's "state".
    """

    def __init__(
        self, model: Any, source: Any, beam_size: int, alpha: float, extra_length: int, early_stop: Any
    ) -> None:
        self.beam_size, self.alpha, self.early_stop = beam_size, alpha, early_stop
        self.model = model
        batch = tf.shape(source)[0]
        max_lengths = tf.math.count_nonzero(source, axis=1, dtype=tf.int32) + extra_length
        longest = tf.reduce_max(tf.concat([max_lengths, [1]], 0))  # a batch may be empty
        memory = model.encode({"source": source})
        of_model, state, self.step_model = model.start(memory, beam_size, longest)
        self.fixed: State = {"rows": tf.range(batch), "model": of_model, "max_lengths": max_lengths}
        shape = (batch, beam_size, longest)
        self.beams: State = {
            "index": tf.constant(0),
            "done": tf.zeros([batch], tf.bool),
            "length": tf.zeros([batch], tf.int32),  # of the unfinished hypotheses
            "alive": tf.zeros(shape, tf.int32),
            # At first all beams are equal, so only one may go on.
            "alive_logp": tf.tile([[0.0] + [_NEVER] * (beam_size - 1)], [batch, 1]),
            "finished": tf.zeros(shape, tf.int32),
            "scores": tf.fill([batch, beam_size], _NEVER),
            "state": state,
        }
        self.result = tf.zeros(shape, tf.int32), tf.zeros(shape[:2])

    def run(self) -> tuple[Any, Any]:
        state = (self.fixed, self.beams, self.result)
        final = tf.while_loop(
            lambda _, beams, __: tf.reduce_any(~beams["done"]),
            self._block,
            state,
            shape_invariants=tf.nest.map_structure(_any_length, state),
        )
        return self._reported(*final)

    def _block(self, fixed: State, beams: State, result: tuple[Any, Any]) -> tuple[State, State, tuple[Any, Any]]:
        state = tf.cond(
            tf.reduce_any(beams["done"]),
            lambda: self._without_done(fixed, beams, result),
            lambda: tf.nest.map_structure(tf.identity, (fixed, beams, result)),
        )
        fixed, beams, result = state
        beams["state"] = tf.cond(
            self.model.is_full(beams["state"]),
            lambda: self.model.renewed(beams["state"], tf.shape(beams["alive"])[2] - beams["index"]),
            lambda: tf.nest.map_structure(tf.identity, beams["state"]),
        )
        (beams,) = tf.while_loop(
            self._goes_on,
            lambda state: (self._step(fixed, state),),
            (beams,),
            shape_invariants=(tf.nest.map_structure(_any_length, beams),),
        )
        return fixed, beams, result

    def _goes_on(self, beams: State) -> Any:
        done = tf.math.count_nonzero(beams["done"], dtype=tf.int32)
        return (4 * done < tf.size(beams["done"])) & ~self.model.is_full(beams["state"])

    def _without_done(
        self, fixed: State, beams: State, result: tuple[Any, Any]
    ) -> tuple[State, State, tuple[Any, Any]]:
        result = self._reported(fixed, beams, result)
        stay = tf.where(~beams["done"])[:, 0]

        def chosen(value: Any) -> Any:
            return tf.gather(value, stay) if len(value.shape) else value  # all but the index

        return tf.nest.map_structure(chosen, fixed), tf.nest.map_structure(chosen, beams), result

    def _reported(self, fixed: State, beams: State, result: tuple[Any, Any]) -> tuple[Any, Any]:
        """Returns the result, updated with the hypotheses of the sentences still in the batch."""
        ids, scores = (
            tf.tensor_scatter_nd_update(old, fixed["rows"][:, None], new)
            for old, new in zip(result, self._ranked(beams), strict=True)
        )
        return ids, scores

    def _step(self, fixed: State, beams: State) -> State:
        index = beams["index"]
        logp, symbols, parents, state = self._candidates(fixed, beams)
        ids = _with_symbol(tf.gather(beams["alive"], parents, batch_dims=1), index, symbols)
        ends = tf.equal(symbols, EOS)

        # Finished: those there were and the candidates that end here.
        scores = tf.where(ends, logp / length_penalty(index + 1, self.alpha), _NEVER)
        scores, chosen = tf.math.top_k(tf.concat([beams["scores"], scores], 1), self.beam_size)
        finished = tf.gather(tf.concat([beams["finished"], ids], 1), chosen, batch_dims=1)

        # Alive: the best candidates that do not end here.
        alive_logp, chosen = tf.math.top_k(tf.where(ends, _NEVER, logp), self.beam_size)
        new: State = {
            "length": tf.zeros_like(beams["length"]) + (index + 1),
            "alive": tf.gather(ids, chosen, batch_dims=1),
            "alive_logp": alive_logp,
            "finished": finished,
            "scores": scores,
        }
        # A sentence that is done stays as it is, whatever its neighbours need.
        for name, value in new.items():
            done = tf.reshape(beams["done"], [-1] + [1] * (len(value.shape) - 1))
            new[name] = tf.where(done, beams[name], value)
        new["done"] = beams["done"] | self._settled(fixed, index + 1, new["alive_logp"], new["scores"])
        new["index"] = index + 1
        new["state"] = self.model.reorder(state, tf.gather(parents, chosen, batch_dims=1))
        return new

    def _candidates(self, fixed: State, beams: State) -> tuple[Any, Any, Any, Any]:
        """The 2K best continuations: log-probabilities, symbols, parents [B, 2K]; and the model's state after them."""
        index = beams["index"]
        previous = tf.where(index > 0, beams["alive"][:, :, tf.maximum(index - 1, 0)], PAD)
        logits, state = self.step_model(previous, index, fixed["model"], beams["state"])
        # Changes nothing, but TensorFlow's optimizer would cast bfloat16 logits again for each use in another shape.
        logits = tf.ensure_shape(logits, logits.shape)
        # One more than are needed: padding may be among them.
        number = min(2 * self.beam_size + 1, logits.shape[-1])
        best, symbols = top_k(logits, number)
        # Log-probabilities from that of the best symbol, which is never too small for its probability to be known:
        # one pass over the logits instead of the three of a log-softmax.
        of_best = tf.math.log(tf.gather(tf.nn.softmax(logits), symbols[:, :, :1], batch_dims=2))
        logp = best - best[:, :, :1] + of_best + beams["alive_logp"][:, :, None]
        logp = tf.where(tf.equal(symbols, PAD), _NEVER, logp)  # padding is no output
        flat = (tf.shape(logp)[0], self.beam_size * number)
        # A greedy search looks at the best symbol alone: an end symbol in second place would finish a worse output.
        wanted = 2 * self.beam_size if self.beam_size > 1 else 1
        logp, chosen = tf.math.top_k(tf.reshape(logp, flat), min(wanted, self.beam_size * number))
        return logp, tf.gather(tf.reshape(symbols, flat), chosen, batch_dims=1), chosen // number, state

    def _settled(self, fixed: State, length: Any, alive_logp: Any, scores: Any) -> Any:
        """bool [B]: at the longest length, or nothing alive can change the result."""
        could_reach = tf.reduce_max(alive_logp, 1) / length_penalty(fixed["max_lengths"], self.alpha)
        to_beat = tf.where(self.early_stop, tf.reduce_max(scores, 1), tf.reduce_min(scores, 1))
        return (length >= fixed["max_lengths"]) | ((to_beat >= could_reach) & (to_beat > _NEVER))

    def _ranked(self, state: dict[str, Any]) -> tuple[Any, Any]:
        """Finished hypotheses in order, then unfinished ones in the places that are left."""
        unfinished = state["alive_logp"] / length_penalty(state["length"], self.alpha)[:, None]
        scores = tf.concat([state["scores"], unfinished], 1)
        places = tf.concat([state["scores"], unfinished - 1e6], 1)
        _, chosen = tf.math.top_k(places, self.beam_size)
        ids = tf.gather(tf.concat([state["finished"], state["alive"]], 1), chosen, batch_dims=1)
        return ids, tf.gather(scores, chosen, batch_dims=1)


def _with_symbol(ids: Any, index: Any, symbols: Any) -> Any:
    here = tf.range(tf.shape(ids)[2]) == index
    return tf.where(here, symbols[:, :, None], ids)


def _any_length(value: Any) -> tf.TensorShape:
    """Shapes in which only the number of sentences may change, besides sizes unknown to the graph."""
    return tf.TensorShape([None, *value.shape[1:]] if len(value.shape) else [])
