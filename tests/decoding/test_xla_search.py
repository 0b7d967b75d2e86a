"""Searches, samples and scores of every model as programs of XLA, on XLA:CPU: they find what the plain graphs find.

How fast they are on a GPU cannot be seen here; see benchmarks/gpu.
"""

import functools
import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite import config
from t2t_lite.decoding.beam_search import beam_search
from t2t_lite.decoding.piece_scores import log_probs
from t2t_lite.decoding.rules import Rules
from t2t_lite.decoding.sampling import Sampling, sample
from t2t_lite.decoding.search import longest_output
from t2t_lite.decoding.sized_graph import SizedGraph
from t2t_lite.models.base import Model
from t2t_lite.models.transformer import Transformer
from t2t_lite.samplers.base import make_sampler
from tests import reference
from tests.decoding.test_beam_search import OTHERS, RELATIVE, RNNS, TENSOR2TENSOR, TINY, V
from tests.searches import EOS, EXTRA, hypotheses, penalty, random_sources

SOURCES = random_sources(V)
IDS, FLAG = tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([], tf.bool)
ALPHA = 0.6  # of the length penalty
SCORE = 1e-4  # as in test_beam_search; a mixture's random gates enlarge rounding
ENLARGED = {"moe": 4e-3}
FEW_ROWS, WIDE = SOURCES[:5], np.pad(SOURCES, ((0, 1), (0, 9)))  # the latter with a row of padding


def _transformer(**changes: Any) -> Transformer:
    model = Transformer.from_hparams(config.replace(TINY, **changes), V, V, True)
    reference.randomise(model, 4, 2.0)
    return model


KINDS: dict[str, dict[str, Any]] = {
    "transformer": {},
    "relative": RELATIVE,
    "tensor2tensor": TENSOR2TENSOR,
    "additive": {"attention_score": "additive"},
    "rotary": {"positions": "rotary", "norm": "pre", "num_decoder_layers": 2},
    "window": {"attention_window": 6, "positions": "learned", "max_positions": 12},
}
MODELS: dict[str, Callable[[], Model]] = {
    **{name: functools.partial(_transformer, **changes) for name, changes in KINDS.items()},
    **OTHERS,
}
assert set(RNNS) < set(OTHERS)
SAMPLED = ("transformer", "general", "convs2s", "bytenet", "moe", "transformer_moe", "ensemble")


class _Pair:
    """A function of a model, `make(model, *arguments, jit)`, by XLA and in a plain graph."""

    def __init__(self, name: str, make: Callable[..., Any], *signature: Any) -> None:
        self._model = model = MODELS[name]()

        def function(*arguments: Any, jit: bool = False) -> Any:
            return make(model, *arguments, jit=jit)

        self.graphs = [SizedGraph(function, signature, jit=jit, what=name) for jit in (True, False)]
        self._score = ENLARGED.get(name, SCORE)

    def assert_equal(
        self, *arguments: Any, tokens: int = 4096, ties: bool = False
    ) -> tuple[np.ndarray, list[tuple[int, ...]]]:
        """Asserts that both find the same of the arguments; returns their scores, and all hypotheses in one list.

        With `ties` one source may have others, if they are of the same scores: rounding chose between them.
        """
        (ids, scores), (wanted, wanted_scores) = (graph(*arguments, tokens=tokens) for graph in self.graphs)
        assert self.graphs[0].jit
        assert ids.shape[:2] == wanted.shape[:2]
        found, tied = [], 0
        for source, one, other, score in zip(arguments[0], ids, wanted, scores, strict=True):
            if source.any():
                if ties and hypotheses(one) != hypotheses(other):
                    np.testing.assert_allclose(self._rescore(source, one), score, rtol=0, atol=self._score)
                    tied += 1
                else:
                    assert hypotheses(one) == hypotheses(other)
                found += hypotheses(one)
        assert tied <= 1
        there = arguments[0].any(1)
        np.testing.assert_allclose(scores[there], wanted_scores[there], rtol=0, atol=self._score)
        return scores, found

    def _rescore(self, source: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """Returns the scores of hypotheses [K, L] of a source, by the model without a search."""
        totals, lengths = log_probs(self._model, np.tile(source, (len(ids), 1)), ids)
        return totals.numpy() / penalty(lengths.numpy(), ALPHA)


def _beam_search(beam: int = 4, **length: Any) -> Callable[..., Any]:
    settings = {"beam_size": beam, "alpha": ALPHA, "extra_length": EXTRA, **length}

    def search(model: Model, source: Any, early: Any, jit: bool) -> Any:
        return beam_search(model, source, **settings, early_stop=early, jit=jit)

    return search


def _sample(number: int, sampler: str = "random", length: dict[str, Any] | None = None, **options: Any) -> Any:
    settings = {"num_samples": number, "extra_length": EXTRA, **(length or {})}

    def draw(model: Model, source: Any, jit: bool) -> Any:
        sampling = Sampling(make_sampler(sampler, options), 3)
        return sample(model, source, sampling, **settings, jit=jit)

    return draw


@pytest.mark.commit("transformer")
@pytest.mark.parametrize("name", MODELS)
def test_the_n_best_are_those_of_the_plain_graph(name: str) -> None:
    pair = _Pair(name, _beam_search(), IDS, FLAG)
    _, found = pair.assert_equal(SOURCES, False, ties=True)
    assert len(set(found)) > len(found) / 2
    assert len({len(hypothesis) for hypothesis in found}) > 3  # sentences are done at different steps


@pytest.mark.nightly
@pytest.mark.parametrize("beam", [1, 21])
def test_other_sizes_of_beams(beam: int) -> None:
    _Pair("transformer", _beam_search(beam), IDS, FLAG).assert_equal(SOURCES, True)


@pytest.mark.nightly
@pytest.mark.parametrize("rules", [Rules(2, 5), Rules(1, 0), Rules(0, 20), Rules(0, 5, 1.5)])
def test_rules(rules: Rules) -> None:
    _Pair("transformer", _beam_search(rules=rules), IDS, FLAG).assert_equal(SOURCES, False)
    _, drawn = _Pair("transformer", _sample(3, length={"rules": rules}), IDS).assert_equal(SOURCES)
    size = rules.no_repeat_ngram_size
    ngrams = [[output[at : at + size] for at in range(len(output) - size + 1)] for output in drawn]
    assert size == 0 or all(len(set(row)) == len(row) for row in ngrams)
    assert min(len(output) - (output[-1] == EOS) for output in drawn) >= rules.min_length


@pytest.mark.nightly
def test_prefixes() -> None:
    prefixes = np.where(np.arange(5) < np.array([[2, 0, 1, 5, 0, 4, 3, 1, 2]]).T, [5, 6, 5, 6, 7], 0).astype(np.int32)

    def search(model: Model, source: Any, prefix: Any, jit: bool) -> Any:
        return beam_search(model, source, beam_size=4, alpha=ALPHA, extra_length=EXTRA, prefix=prefix, jit=jit)

    def draw(model: Model, source: Any, prefix: Any, jit: bool) -> Any:
        sampling = Sampling(make_sampler("nucleus", {"top_p": 0.8}), 3)
        return sample(model, source, sampling, num_samples=4, extra_length=EXTRA, prefix=prefix, jit=jit)

    for make in (search, draw):
        _, found = _Pair("transformer", make, IDS, IDS).assert_equal(SOURCES, prefixes)
        for row, prefix in enumerate(prefixes):
            forced = [*prefix[prefix > 0]]
            assert all([*output[: len(forced)]] == forced for output in found[4 * row : 4 * row + 4])


@pytest.mark.nightly
@pytest.mark.parametrize(("factor", "extra"), [(0.5, 0), (2.0, 1)])
def test_other_longest_lengths(factor: float, extra: int) -> None:
    length = {"length_factor": factor, "extra_length": extra}
    _, found = _Pair("transformer", _beam_search(**length), IDS, FLAG).assert_equal(SOURCES, False)
    _, drawn = _Pair("transformer", _sample(3, length=length), IDS).assert_equal(SOURCES)
    longest = longest_output(max(np.count_nonzero(SOURCES, 1)), factor, extra)
    assert max(map(len, found)) == max(map(len, drawn)) == longest


@pytest.mark.nightly
def test_batches_are_padded_to_few_sizes(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "t2t_lite")
    pair = _Pair("transformer", _beam_search(), IDS, FLAG)
    sizes = {}
    batches = {"1 x 16": SOURCES[:1], "8 x 16": FEW_ROWS, "64 x 16": SOURCES, "64 x 32": WIDE}
    for size, sources in batches.items():
        for early in (True, False):  # no program of its own
            sizes[size] = pair.assert_equal(sources, early)[1]
    assert (
        pair.assert_equal(SOURCES[:4], False)[1] == sizes["64 x 16"][:16]
    )  # eight rows of one kind, a program that is there
    assert sizes["64 x 32"] == sizes["64 x 16"]
    pair.assert_equal(SOURCES, True, tokens=160)  # ten rows of 16 are all that there may be
    compiled = [message.partition("batches of ")[2].partition(" pieces")[0] for message in caplog.messages]
    assert compiled == [*batches, "10 x 16"]


@pytest.mark.nightly
@pytest.mark.parametrize("name", SAMPLED)
def test_samples_are_those_of_the_plain_graph(name: str) -> None:
    _, found = _Pair(name, _sample(3), IDS).assert_equal(FEW_ROWS)
    assert len(set(found)) > len(found) / 2


@pytest.mark.nightly
@pytest.mark.parametrize("sampler", ["top_k", "nucleus"])
def test_samplers_are_those_of_the_plain_graph(sampler: str) -> None:
    _Pair("transformer", _sample(35, sampler), IDS).assert_equal(SOURCES)  # three groups, in turns


@pytest.mark.nightly
@pytest.mark.parametrize("name", SAMPLED)
def test_scores_are_those_of_the_plain_graph(name: str) -> None:
    model = MODELS[name]()

    def function(source: Any, target: Any, jit: bool = False) -> Any:
        return log_probs(model, source, target)

    targets = np.pad(SOURCES[::-1], ((0, 0), (0, 8)))  # wider than the sources, and than 16
    one, other = (
        SizedGraph(function, [IDS] * 2, jit=jit, what=name)(SOURCES, targets, tokens=2048) for jit in (True, False)
    )
    np.testing.assert_array_equal(one[1], other[1])
    np.testing.assert_allclose(one[0], other[0], rtol=0, atol=10 * ENLARGED.get(name, SCORE))
    assert len(set(np.round(one[0]))) > 5
