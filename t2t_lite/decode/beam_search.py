"""Beam search with length penalty (section 6.1; Wu et al., 2016, equation 14).

Legend: B sentences, K beam size, L longest output.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

PAD, EOS = 0, 1
_CACHE_BLOCK = 16  # positions by which the caches grow
_NEVER = -float("inf")


def length_penalty(length: Any, alpha: float) -> Any:
    """((5 + length) / 6)^alpha; `length` counts the end symbol."""
    return tf.pow((5.0 + tf.cast(length, tf.float32)) / 6.0, alpha)


def beam_search(
    model: Any, source: Any, *, beam_size: int, alpha: float, extra_length: int, early_stop: Any = True
) -> tuple[Any, Any]:
    """Finds the outputs of highest log-probability / length_penalty.

    Each step keeps the K best unfinished hypotheses and, apart from them, the K best finished ones, out of 2K
    candidates. A sentence is done when it has reached its longest length, or when no unfinished hypothesis can still
    win: log-probabilities only fall, so the best one's value over the longest length's penalty bounds its score.
    What happens to a sentence does not depend on the others in its batch.

    Args:
        model: has encode, start and step as `Transformer`.
        source: int32 [B, S], each sentence ended by 1, padded with 0.
        beam_size: K; 1 is greedy search.
        alpha: exponent of the length penalty, at least 0.
        extra_length: outputs have at most the source's length plus this many pieces, end symbols counted.
        early_stop: bool or bool scalar; done when the best output is settled; otherwise when all K are.

    Returns:
        int32 [B, K, L], best first, ended by 1 and padded with 0; float32 [B, K] scores. An unfinished hypothesis has
        no end symbol, is scored by the same formula and ranks after all finished ones.
    """
    return _Search(model, source, beam_size, alpha, extra_length, early_stop).run()


class _Search:
    """One call of `beam_search`: what stays the same from step to step."""

    def __init__(
        self, model: Any, source: Any, beam_size: int, alpha: float, extra_length: int, early_stop: Any
    ) -> None:
        self.model, self.beam_size, self.alpha, self.early_stop = model, beam_size, alpha, early_stop
        self.memory, self.memory_bias = model.encode({"source": source})
        self.batch = tf.shape(source)[0]
        self.max_lengths = tf.math.count_nonzero(source, axis=1, dtype=tf.int32) + extra_length
        self.longest = tf.reduce_max(tf.concat([self.max_lengths, [1]], 0))  # a batch may be empty

    def run(self) -> tuple[Any, Any]:
        caches, self.memory_caches = self.model.start(self.memory, self.beam_size, _CACHE_BLOCK)
        shape = (self.batch, self.beam_size, self.longest)
        state = {
            "index": tf.constant(0),
            "done": tf.zeros([self.batch], tf.bool),
            "length": tf.zeros([self.batch], tf.int32),  # of the unfinished hypotheses
            "alive": tf.zeros(shape, tf.int32),
            # At first all beams are equal, so only one may go on.
            "alive_logp": tf.tile([[0.0] + [_NEVER] * (self.beam_size - 1)], [self.batch, 1]),
            "finished": tf.zeros(shape, tf.int32),
            "scores": tf.fill([self.batch, self.beam_size], _NEVER),
            "caches": caches,
        }
        invariants: dict[str, Any] = {
            name: tf.TensorShape([None] * len(value.shape)) for name, value in state.items() if name != "caches"
        }
        invariants["caches"] = [
            tuple(tf.TensorShape([None, c.shape[1], None, c.shape[3]]) for c in pair) for pair in caches
        ]
        final = tf.while_loop(self._goes_on, lambda s: (self._step(s),), (state,), shape_invariants=(invariants,))[0]
        return self._ranked(final)

    def _goes_on(self, state: dict[str, Any]) -> Any:
        return tf.reduce_any(~state["done"]) & (state["index"] < self.longest)

    def _step(self, state: dict[str, Any]) -> dict[str, Any]:
        index = state["index"]
        logp, symbols, parents, caches = self._candidates(state)
        ids = _with_symbol(tf.gather(state["alive"], parents, batch_dims=1), index, symbols)
        ends = tf.equal(symbols, EOS)

        # Finished: those there were and the candidates that end here.
        scores = tf.where(ends, logp / length_penalty(index + 1, self.alpha), _NEVER)
        scores, chosen = tf.math.top_k(tf.concat([state["scores"], scores], 1), self.beam_size)
        finished = tf.gather(tf.concat([state["finished"], ids], 1), chosen, batch_dims=1)

        # Alive: the best candidates that do not end here.
        alive_logp, chosen = tf.math.top_k(tf.where(ends, _NEVER, logp), self.beam_size)
        rows = tf.range(self.batch)[:, None] * self.beam_size + tf.gather(parents, chosen, batch_dims=1)
        rows = tf.reshape(rows, [-1])
        new: dict[str, Any] = {
            "length": tf.fill([self.batch], index + 1),
            "alive": tf.gather(ids, chosen, batch_dims=1),
            "alive_logp": alive_logp,
            "finished": finished,
            "scores": scores,
        }
        # A sentence that is done stays as it is, whatever its neighbours need.
        for name, value in new.items():
            done = tf.reshape(state["done"], [-1] + [1] * (len(value.shape) - 1))
            new[name] = tf.where(done, state[name], value)
        new["done"] = state["done"] | self._settled(index + 1, new["alive_logp"], new["scores"])
        new["index"] = index + 1
        new["caches"] = [(tf.gather(k, rows), tf.gather(v, rows)) for k, v in caches]
        return new

    def _candidates(self, state: dict[str, Any]) -> tuple[Any, Any, Any, Any]:
        """The 2K best continuations: log-probabilities, symbols and parents [B, 2K]; and the caches of all beams."""
        index = state["index"]
        previous = tf.where(index > 0, state["alive"][:, :, tf.maximum(index - 1, 0)], PAD)
        caches = _grown(state["caches"], index)
        # Equal to memory_bias, but made by an operation inside the loop: TensorFlow 2.21's fusion of matmul and add for
        # oneDNN would read a bias that comes straight from outside at the wrong output of the loop's switch, and the
        # whole search would give empty arrays (it does so for models of one layer).
        bias = tf.where(self.memory_bias < 0, self.memory_bias, 0.0)
        logits, caches = self.model.step(previous, index, caches, self.memory_caches, bias)
        # The best of each beam first: no log-softmax over the whole vocabulary is ever written down.
        # One more than are needed: padding may be among them.
        number = min(2 * self.beam_size + 1, logits.shape[-1])
        best, symbols = tf.math.top_k(logits, number)
        logp = best - tf.reduce_logsumexp(logits, -1, keepdims=True) + state["alive_logp"][:, :, None]
        logp = tf.where(tf.equal(symbols, PAD), _NEVER, logp)  # padding is no output
        flat = (self.batch, self.beam_size * number)
        # A greedy search looks at the best symbol alone: an end symbol in second place would finish a worse output.
        wanted = 2 * self.beam_size if self.beam_size > 1 else 1
        logp, chosen = tf.math.top_k(tf.reshape(logp, flat), min(wanted, self.beam_size * number))
        return logp, tf.gather(tf.reshape(symbols, flat), chosen, batch_dims=1), chosen // number, caches

    def _settled(self, length: Any, alive_logp: Any, scores: Any) -> Any:
        """bool [B]: at the longest length, or nothing alive can change the result."""
        could_reach = tf.reduce_max(alive_logp, 1) / length_penalty(self.max_lengths, self.alpha)
        to_beat = tf.where(self.early_stop, tf.reduce_max(scores, 1), tf.reduce_min(scores, 1))
        return (length >= self.max_lengths) | ((to_beat >= could_reach) & (to_beat > _NEVER))

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


def _grown(caches: list[tuple[Any, Any]], index: Any) -> list[tuple[Any, Any]]:
    """Adds a block of places when `index` is past the last: short outputs never pay for long ones."""
    capacity = tf.shape(caches[0][0])[2]

    def more() -> list[tuple[Any, Any]]:
        paddings = [[0, 0], [0, 0], [0, _CACHE_BLOCK], [0, 0]]
        return [(tf.pad(k, paddings), tf.pad(v, paddings)) for k, v in caches]

    return tf.cond(tf.equal(index, capacity), more, lambda: [(tf.identity(k), tf.identity(v)) for k, v in caches])
