"""Diverse beam search against a plain NumPy one from the paper, in any batch, and by XLA."""

import functools
from collections import Counter
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.decoding.beam_search import beam_search
from t2t_lite.decoding.diverse import DiverseSearch
from t2t_lite.decoding.sized_graph import SizedGraph
from tests.decoding.test_beam_search import SOURCES, V, _Searches
from tests.searches import EOS, EXTRA, PAD, Hypotheses, hypotheses, penalty, without_padding

_SIGNATURE = [tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([], tf.bool)]


@pytest.fixture(scope="module")
def searches() -> _Searches:
    return _Searches()


def _graph(searches: _Searches, beam: int, groups: int, strength: float) -> Any:
    kind = functools.partial(DiverseSearch, groups=groups, strength=strength) if groups > 1 else None

    def search(source: Any, early: Any, jit: bool = False) -> Any:
        how: dict[str, Any] = {"alpha": 0.6, "extra_length": EXTRA, "early_stop": early, "kind": kind, "jit": jit}
        return beam_search(searches.model, source, beam_size=beam, **how)

    return search


def _slow(searches: _Searches, source: tuple[int, ...], beam: int, groups: int, strength: float) -> Hypotheses:
    """Algorithm 1 of the paper, with finished hypotheses of each group beside its unfinished ones, none twice."""
    size, longest = beam // groups, len(source) + EXTRA
    alive: list[Hypotheses] = [[((), 0.0)] for _ in range(groups)]
    finished: list[Hypotheses] = [[] for _ in range(groups)]
    for length in range(1, longest + 1):
        used: Counter[int] = Counter()
        for g in range(groups):
            table = searches.logp(source, [ids for ids, _ in alive[g]]) if alive[g] else np.zeros((0, V))
            table = table + np.array([total for _, total in alive[g]])[:, None]
            table[:, PAD] = -np.inf
            taken = {ids for rows in finished[:g] for ids, _ in rows}
            table[[(*ids, EOS) in taken for ids, _ in alive[g]], EOS] = -np.inf
            augmented = table - strength * np.array([used[symbol] for symbol in range(V)])
            best = np.argsort(-augmented, axis=None, kind="stable")[: 2 * size]
            places = [(int(at) // V, int(at) % V) for at in best]
            found = [((*alive[g][row][0], symbol), float(table[row, symbol])) for row, symbol in places]
            ended = [(ids, total / penalty(length, 0.6)) for ids, total in found if ids[-1] == EOS]
            finished[g] = sorted(finished[g] + ended, key=lambda pair: -pair[1])[:size]
            alive[g] = [(ids, total) for ids, total in found if ids[-1] != EOS][:size]
            used.update(ids[-1] for ids, _ in alive[g])
        bounds = [max((t for _, t in rows), default=-np.inf) / penalty(longest, 0.6) for rows in alive]
        if all(len(f) == size and f[-1][1] >= bound for f, bound in zip(finished, bounds, strict=True)):
            break
    ended = sorted((pair for rows in finished for pair in rows), key=lambda pair: -pair[1])
    rest = [(ids, total / penalty(length, 0.6)) for rows in alive for ids, total in rows]
    return (ended + sorted(rest, key=lambda pair: -pair[1]))[:beam]


@pytest.mark.commit("4-2-0.8")
@pytest.mark.parametrize("strength", [0.0, 0.8, 5.0])
@pytest.mark.parametrize(("beam", "groups"), [(4, 2), (4, 4), (7, 7), (6, 2)])
def test_fast_equals_slow(searches: _Searches, beam: int, groups: int, strength: float) -> None:
    search = tf.function(_graph(searches, beam, groups, strength), input_signature=_SIGNATURE, autograph=False)
    ids, scores = search(SOURCES, False)
    for source, got, values in zip(SOURCES, ids, scores, strict=True):
        wanted = _slow(searches, without_padding(source), beam, groups, strength)
        assert hypotheses(got.numpy()) == [output for output, _ in wanted]
        ended = [output for output in hypotheses(got.numpy()) if output[-1] == EOS]
        assert len(set(ended)) == len(ended)
        np.testing.assert_allclose(values, [score for _, score in wanted], rtol=0, atol=1e-4)
    early, _ = search(SOURCES, True)
    np.testing.assert_array_equal(early[:, 0], ids[:, 0])
    alone, _ = search(SOURCES[2:3], False)
    assert hypotheses(alone[0].numpy()) == hypotheses(ids[2].numpy())
    if strength > 1:
        usual = tf.function(_graph(searches, beam, 1, 0.0), input_signature=_SIGNATURE, autograph=False)
        assert _count_firsts(ids) > _count_firsts(usual(SOURCES, False)[0])


def _count_firsts(ids: Any) -> int:
    """With how many symbols the outputs of a sentence begin, over all sentences."""
    return sum(len({int(output[0]) for output in outputs}) for outputs in ids.numpy())


@pytest.mark.nightly
def test_xla_finds_the_same(searches: _Searches) -> None:
    graphs = [SizedGraph(_graph(searches, 4, 2, 0.8), _SIGNATURE, jit=jit, what="it") for jit in (True, False)]
    (ids, scores), (wanted, wanted_scores) = (graph(SOURCES, False, tokens=4096) for graph in graphs)
    assert graphs[0].jit
    for one, other in zip(ids, wanted, strict=True):
        assert hypotheses(one) == hypotheses(other)
    np.testing.assert_allclose(scores, wanted_scores, rtol=0, atol=1e-4)
