"""Sampling: outputs that are drawn from a model's probabilities, symbol by symbol, instead of searched for.

For back-translation, sampled sources teach a model more than the beam's best ones (Edunov et al., 2018).

Legend: B sentences, K samples of a sentence, S source length, L longest output, V vocabulary.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Collection, Sequence
from typing import Any

import tensorflow as tf

from t2t_lite.decoding.constraint import Constraint
from t2t_lite.decoding.rules import NO_RULES, Rules
from t2t_lite.decoding.search import Search, State, with_symbol
from t2t_lite.errors import UsageError
from t2t_lite.ids import EOS, PAD
from t2t_lite.ops.prepared import prepare_weights, read_weights_once
from t2t_lite.samplers.base import Sampler

# Samples that share a row of the search. In a row each sees the KV cache's slots of all, so that time would grow with
# the square of their number; a row of few would multiply with few rows at once.
_GROUP = 16
_BLOCK = 128  # symbols whose probabilities are added up before it is known in which block a point lies
_AT_ONCE = 512  # samples drawn at the same time, if no more than a group of each sentence: this bounds the memory


@dataclasses.dataclass(frozen=True)
class Sampling:
    """How outputs are drawn.

    seed: a different seed draws different outputs; an int, or a `seed_variable`.
    """

    sampler: Sampler
    seed: Any


def seed_variable(seed: Any) -> Any:
    """Returns a uint64 variable; the graph that reads it draws with any seed that is assigned to it.

    Raises:
        UsageError: `seed` is not an integer, of Python or of NumPy.
    """
    try:
        value = operator.index(seed) % 2**64
    except TypeError:
        raise UsageError(f"seed={seed!r} is not an integer. Give a whole number, such as seed=1.") from None
    return tf.Variable(value, trainable=False, dtype=tf.uint64)


def sample(
    model: Any,
    source: Any,
    sampling: Sampling,
    *,
    num_samples: int,
    extra_length: int,
    prepack: bool = False,
    constraints: Sequence[Constraint] = (),
    jit: bool = False,
    never: Collection[int] = (PAD,),
    length_factor: float = 1.0,
    rules: Rules = NO_RULES,
    prefix: Any = None,
) -> tuple[Any, Any]:
    """Draws outputs, each independently of the others.

    What is drawn for a sentence depends on the seed and the sentence alone: its neighbours, the batch and the number of
    samples change nothing (except where the last bit of a logit decides). Equal sentences give equal samples.

    Args:
        model: a `models.base.Model`.
        source: int32 [B, S], each sentence ended by 1, padded with 0.
        sampling: the sampler and the seed.
        num_samples: K.
        extra_length, length_factor, prepack: as in `beam_search`.
        constraints: see `Search`; the sampler's distribution is among the symbols that they allow.
        jit: see `Search`.
        never: symbols that are never drawn.
        rules: see `Rules`; the sampler's distribution is among the symbols that they leave.
        prefix: as in `beam_search`.

    Returns:
        int32 [B, K, L], in the order of drawing, ended by 1 and padded with 0; an output cut at the longest length has
        no end symbol. float32 [B, K], the log-probability of each under the model itself, whatever the sampler.
    """
    with read_weights_once(model):
        search = _Sampling(model, source, sampling, num_samples, extra_length, constraints, jit, length_factor, rules)
        search.never = tuple(never)
        if prefix is not None:
            search.force(prefix)
        with prepare_weights(model, prepack=prepack, jit=jit):
            return search.run()


class _Sampling(Search):
    """One call of `sample`.

    A row of the search is a group of a sentence's samples. `fixed` also has the sentence's "key" [B] and "numbers"
    [B, K], each sample's place among all of the sentence. `beams` also has the log-probabilities "logp" [B, K] and
    whether a sample has "ended". Here B counts rows, and K is the size of a group.
    """

    def __init__(
        self,
        model: Any,
        source: Any,
        sampling: Sampling,
        num_samples: int,
        extra_length: int,
        constraints: Sequence[Constraint],
        jit: bool,
        length_factor: float,
        rules: Rules,
    ) -> None:
        self.num_groups = -(-num_samples // _GROUP)
        size = -(-num_samples // self.num_groups)
        super().__init__(model, source, size, extra_length, constraints, jit, length_factor, rules)
        self.sampler, self.num_samples = sampling.sampler, num_samples
        self.never: tuple[int, ...] = (PAD,)
        self.fixed["key"] = sentence_keys(source, sampling.seed)

    def run(self) -> tuple[Any, Any]:
        """Draws some groups of every sentence, then the next ones."""
        sentences, size, longest = self.shape
        at_once: Any
        if self.jit:
            at_once = min(max(_AT_ONCE // (sentences * size), 1), self.num_groups)
        else:
            at_once = tf.clip_by_value(_AT_ONCE // tf.maximum(sentences * size, 1), 1, self.num_groups)
        firsts = tf.range(0, self.num_groups, at_once)
        found = tf.map_fn(
            lambda first: self._groups(first, at_once),
            firsts,
            fn_output_signature=(tf.int32, tf.float32),
            parallel_iterations=1,
        )

        def by_sentence(value: Any, *shape: Any) -> Any:
            turns = tf.reshape(value, [tf.shape(firsts)[0], sentences, at_once * size, *shape])
            samples = tf.reshape(tf.einsum("ts...->st...", turns), [sentences, -1, *shape])
            return samples[:, : self.num_samples]

        ids, logp = by_sentence(found[0], longest), by_sentence(found[1])
        return tf.ensure_shape(ids, [None, self.num_samples, None]), tf.ensure_shape(logp, [None, self.num_samples])

    def _groups(self, first: Any, number: Any) -> tuple[Any, Any]:
        """Draws groups `first` to `first` + `number` - 1 of each sentence; a row of the result is a group."""
        sentences, size, longest = self.shape

        def repeat(value: Any) -> Any:
            return tf.repeat(value, number, 0) if len(value.shape) else value  # all but scalars

        fixed, beams = tf.nest.map_structure(repeat, (self.fixed, self.beams))
        rows = sentences * number
        groups = first + tf.tile(tf.range(number), [sentences])
        fixed |= {"rows": tf.range(rows), "numbers": groups[:, None] * size + tf.range(size)}
        ended = fixed["numbers"] >= self.num_samples  # the last group has room for more
        beams |= {"logp": tf.zeros([rows, size]), "ended": ended, "done": tf.reduce_all(ended, 1)}
        return self._search(fixed, beams, (tf.zeros([rows, size, longest], tf.int32), tf.zeros([rows, size])))

    def _step(self, fixed: State, beams: State) -> State:
        index, ended = beams["index"], beams["ended"] | beams["done"][:, None]
        logits, state = self._logits(fixed, beams)
        likely = logits
        if self.rules.repetition_penalty > 1:
            likely = self.rules.penalise(logits, beams["alive"], index)
        rows = tf.reshape(self._permit(fixed, beams, likely), [-1, logits.shape[-1]])
        points = uniform(fixed["key"], fixed["numbers"], index)
        symbols = tf.reshape(draw(self.sampler, rows, tf.reshape(points, [-1]), self.never), tf.shape(points))
        logp = tf.gather(logits, symbols, batch_dims=2) - tf.reduce_logsumexp(logits, -1)
        logp = tf.where(ended, 0.0, logp)
        symbols = tf.where(ended, PAD, symbols)
        ended |= tf.equal(symbols, EOS)
        return {
            "index": index + 1,
            "done": tf.reduce_all(ended, 1) | (index + 1 >= fixed["max_lengths"]),
            "alive": with_symbol(beams["alive"], index, symbols),
            "logp": beams["logp"] + logp,
            "ended": ended,
            "state": state,  # a sample continues from itself, so nothing is reordered
            "constraints": self._constraints_after(beams, symbols),
        }

    def _rank(self, beams: State) -> tuple[Any, Any]:
        return beams["alive"], beams["logp"]


def draw(sampler: Sampler, logits: Any, points: Any, never: Collection[int] = (PAD,)) -> Any:
    """Draws a symbol for each row, where its cumulative probability passes a point; those of `never` are never drawn.

    The sums are in float64, first of blocks, then within one: a running sum over all symbols would take most of a step.

    Args:
        logits: float32 [R, V].
        points: float64 [R], in [0, 1).

    Returns:
        int32 [R].
    """
    places = tf.range(logits.shape[-1])
    for symbol in never:
        logits = tf.where(places == symbol, -float("inf"), logits)
    probabilities = tf.nn.softmax(sampler(logits))
    size = logits.shape[-1]
    blocks = -(-size // _BLOCK)
    by_block = tf.reshape(tf.pad(probabilities, [[0, 0], [0, blocks * _BLOCK - size]]), [-1, blocks, _BLOCK])
    ends = tf.cumsum(tf.reduce_sum(tf.cast(by_block, tf.float64), -1), axis=-1)
    points = points[:, None] * ends[:, -1:]
    block = _passed(ends, points)
    points -= tf.gather(tf.pad(ends, [[0, 0], [1, 0]]), block, batch_dims=1)[:, None]
    within = tf.cumsum(tf.cast(tf.gather(by_block, block, batch_dims=1), tf.float64), axis=-1)
    # Both sums of a block are rounded, so a point at its end may lie beyond the second one.
    points = tf.minimum(points, within[:, -1:] * (1 - 2.0**-52))
    return block * _BLOCK + _passed(within, points)


def _passed(ends: Any, points: Any) -> Any:
    """Returns int32 [R]: how many of `ends` [R, N] are not beyond a row's point [R, 1]."""
    return tf.math.count_nonzero(ends <= points, axis=-1, dtype=tf.int32)


def sentence_keys(source: Any, seed: Any) -> Any:
    """Returns uint64 [B], made of the seed and each sentence's symbols; padding changes nothing."""
    seed = tf.constant(seed % 2**64, tf.uint64) if isinstance(seed, int) else tf.convert_to_tensor(seed)
    places = tf.range(tf.shape(source)[1])
    hashes = _mix(_mix(tf.cast(source, tf.uint64)) + tf.cast(places, tf.uint64))
    of_symbols = tf.reduce_sum(tf.where(tf.equal(source, PAD), tf.zeros_like(hashes), hashes), 1)
    return _mix(of_symbols + _mix(seed))


def uniform(keys: Any, numbers: Any, index: Any) -> Any:
    """Returns float64 [B, K] in [0, 1), uniform: of the samples with these `numbers` int32 [B, K], at step `index`.

    It is a different one for each key [B], number and step.
    """
    bits = _mix(_mix(keys[:, None] + tf.cast(numbers, tf.uint64)) + tf.cast(index, tf.uint64))
    return tf.cast(tf.bitwise.right_shift(bits, tf.constant(12, tf.uint64)), tf.float64) * 2.0**-52


def _mix(x: Any) -> Any:
    """A step of SplitMix64 (Steele et al., 2014) on uint64: inputs that differ in a bit give unlike outputs."""
    x += tf.constant(0x9E3779B97F4A7C15, tf.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, tf.constant(shift, tf.uint64)))
        x *= tf.constant(factor, tf.uint64)
    return tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, tf.constant(31, tf.uint64)))
