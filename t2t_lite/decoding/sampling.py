"""Sampling: outputs that are drawn from a model's probabilities, symbol by symbol, instead of searched for.

For back-translation, sampled sources teach a model more than the beam's best ones (Edunov et al., 2018).

Legend: B sentences, K samples of a sentence, S source length, L longest output, V vocabulary.
"""

from __future__ import annotations

import dataclasses
import operator
from typing import Any

import tensorflow as tf

from t2t_lite.decoding.constraint import Constraint
from t2t_lite.decoding.search import Search, State, with_symbol
from t2t_lite.errors import UsageError
from t2t_lite.ids import EOS, PAD
from t2t_lite.ops.prepared import prepare_weights, weights_read_once
from t2t_lite.ops.replaced import LOCK
from t2t_lite.samplers.base import Sampler


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
    constraint: Constraint | None = None,
) -> tuple[Any, Any]:
    """Draws outputs, each independently of the others.

    What is drawn for a sentence depends on the seed and the sentence alone: its neighbours, the batch and the number of
    samples change nothing (except where the last bit of a logit decides). Equal sentences give equal samples.

    Args:
        model: a `models.base.Model`.
        source: int32 [B, S], each sentence ended by 1, padded with 0.
        sampling: the sampler and the seed.
        num_samples: K.
        extra_length, prepack: as in `beam_search`.
        constraint: see `Search`; the sampler's distribution is among the symbols that it allows.

    Returns:
        int32 [B, K, L], in the order of drawing, ended by 1 and padded with 0; an output cut at the longest length has
        no end symbol. float32 [B, K], the log-probability of each under the model itself, whatever the sampler.
    """
    with LOCK, weights_read_once(model):
        search = _Sampling(model, source, sampling, num_samples, extra_length, constraint)
        with prepare_weights(model, prepack=prepack):
            return search.run()


class _Sampling(Search):
    """One call of `sample`.

    It adds "key" [B] to `fixed`, and to `beams` the log-probabilities "logp" [B, K] and whether a sample has "ended".
    """

    def __init__(
        self,
        model: Any,
        source: Any,
        sampling: Sampling,
        num_samples: int,
        extra_length: int,
        constraint: Constraint | None,
    ) -> None:
        super().__init__(model, source, num_samples, extra_length, constraint)
        self.sampler = sampling.sampler
        self.fixed["key"] = sentence_keys(source, sampling.seed)
        self.beams |= {"logp": tf.zeros(self.shape[:2]), "ended": tf.zeros(self.shape[:2], tf.bool)}

    def _step(self, fixed: State, beams: State) -> State:
        index, ended = beams["index"], beams["ended"] | beams["done"][:, None]
        logits, state = self._logits(fixed, beams)
        rows = tf.reshape(self._permitted(fixed, beams, logits), [-1, logits.shape[-1]])
        points = uniform(fixed["key"], self.beam_size, index)
        symbols = tf.reshape(drawn(self.sampler, rows, tf.reshape(points, [-1])), tf.shape(points))
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
            "state": state,  # a sample goes on from itself, so nothing is reordered
            **self._constraint_after(beams, symbols),
        }

    def _ranked(self, beams: State) -> tuple[Any, Any]:
        return beams["alive"], beams["logp"]


def drawn(sampler: Sampler, logits: Any, points: Any) -> Any:
    """Draws a symbol for each row, where its cumulative probability passes a point; padding is never drawn.

    Args:
        logits: float32 [R, V].
        points: float64 [R], in [0, 1).

    Returns:
        int32 [R].
    """
    padding = tf.range(logits.shape[-1]) == PAD
    probabilities = tf.nn.softmax(sampler(tf.where(padding, -float("inf"), logits)))
    cumulative = tf.cumsum(tf.cast(probabilities, tf.float64), axis=-1)
    return tf.math.count_nonzero(cumulative <= points[:, None] * cumulative[:, -1:], axis=-1, dtype=tf.int32)


def sentence_keys(source: Any, seed: Any) -> Any:
    """Returns uint64 [B], made of the seed and each sentence's symbols; padding changes nothing."""
    seed = tf.constant(seed % 2**64, tf.uint64) if isinstance(seed, int) else tf.convert_to_tensor(seed)
    places = tf.range(tf.shape(source)[1])
    hashes = _mixed(_mixed(tf.cast(source, tf.uint64)) + tf.cast(places, tf.uint64))
    of_symbols = tf.reduce_sum(tf.where(tf.equal(source, PAD), tf.zeros_like(hashes), hashes), 1)
    return _mixed(of_symbols + _mixed(seed))


def uniform(keys: Any, num_samples: int, index: Any) -> Any:
    """Returns float64 [B, K] in [0, 1), uniform, a different number for each key, sample and step."""
    samples = tf.range(num_samples, dtype=tf.int32)
    bits = _mixed(_mixed(keys[:, None] + tf.cast(samples, tf.uint64)) + tf.cast(index, tf.uint64))
    return tf.cast(tf.bitwise.right_shift(bits, tf.constant(12, tf.uint64)), tf.float64) * 2.0**-52


def _mixed(x: Any) -> Any:
    """A step of SplitMix64 (Steele et al., 2014) on uint64: inputs that differ in a bit give unlike outputs."""
    x += tf.constant(0x9E3779B97F4A7C15, tf.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, tf.constant(shift, tf.uint64)))
        x *= tf.constant(factor, tf.uint64)
    return tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, tf.constant(31, tf.uint64)))
