"""Coverage penalty against NumPy: its equation, its attention, and what it makes of a plain search's hypotheses."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite import config
from t2t_lite.decoding.beam_search import beam_search
from t2t_lite.decoding.coverage import check_attends, coverage, rank_by_coverage, source_attention
from t2t_lite.errors import UsageError
from t2t_lite.models.ensemble import Ensemble
from tests import reference
from tests.decoding.test_beam_search import SOURCES, TINY, _bytenet, _rnn, _Searches
from tests.searches import EOS, EXTRA, PAD, without_padding

TWO_LAYERS = config.replace(TINY, num_decoder_layers=2)


@pytest.fixture(scope="module")
def searches() -> _Searches:
    return _Searches(hparams=TWO_LAYERS)


def _attention(searches: _Searches, source: tuple[int, ...], output: tuple[int, ...]) -> np.ndarray:
    """The mean over heads of the last layer's attention to the source, [T, S]: softmaxes of the plain model."""
    seen: list[np.ndarray] = []
    softmax = reference.softmax
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reference, "softmax", lambda x: seen.append(softmax(x)) or seen[-1])
        searches.plain(np.array([source]), np.array([output]))
    return np.mean([weights[0] for weights in seen[-2:]], axis=0)  # the last of all: two heads


def _coverage(attention: np.ndarray) -> float:
    """Equation 14 of Wu et al. (2016), without beta."""
    return sum(np.log(min(sum(attention[j, i] for j in range(len(attention))), 1.0)) for i in range(attention.shape[1]))


@pytest.mark.commit("1")
@pytest.mark.parametrize("beam", [1, 4, 7])
def test_ranks_a_plain_searchs_hypotheses_by_the_equation(searches: _Searches, beam: int) -> None:
    beta = 0.7

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)], autograph=False)
    def search(source: Any) -> Any:
        how: dict[str, Any] = {"beam_size": beam, "alpha": 0.6, "extra_length": EXTRA, "early_stop": False}
        return rank_by_coverage(searches.model, source, *beam_search(searches.model, source, **how), beta)

    moved = 0
    ids, scores = search(SOURCES)
    for row, got, values in zip(SOURCES, ids.numpy(), scores.numpy(), strict=True):
        source = without_padding(row)
        found = searches.slow(source, beam, 0.6, False)
        with_penalty = [(o, score + beta * _coverage(_attention(searches, source, o))) for o, score in found]
        wanted = sorted(with_penalty, key=lambda pair: (pair[0][-1] != EOS, -pair[1]))
        assert [without_padding(output) for output in got] == [output for output, _ in wanted]
        np.testing.assert_allclose(values, [score for _, score in wanted], rtol=0, atol=1e-4)
        moved += wanted != with_penalty
    assert moved or beam == 1
    alone, value = search(SOURCES[1:2, : len(without_padding(SOURCES[1]))])  # without padding
    np.testing.assert_allclose(value[0], scores[1], rtol=0, atol=1e-4)
    assert [without_padding(row) for row in alone[0].numpy()] == [without_padding(row) for row in ids[1].numpy()]


def test_golden_values() -> None:
    attention = np.array([[[0.5, 0.5, 0.0], [0.75, 0.25, 0.0]], [[0.2, 0.8, 0.0], [0.0, 0.0, 0.0]]], "float32")
    source = np.array([[5, EOS, PAD], [5, EOS, PAD]], "int32")
    wanted = [np.log(0.75), np.log(0.2) + np.log(0.8)]  # the first piece of the first is covered more than once
    np.testing.assert_allclose(coverage(tf.constant(attention), source), wanted, rtol=1e-5)
    nothing = coverage(tf.zeros([1, 2, 3]), source[:1]).numpy()
    assert np.isfinite(nothing).all()
    assert nothing < -100


def test_an_ensembles_attention_is_the_mean_of_its_members(searches: _Searches) -> None:
    models = [searches.model, _rnn(5)]
    target = np.array([[7, 8, EOS]] * len(SOURCES), "int32")
    both, first, second = (np.array(source_attention(m, SOURCES, target)) for m in (Ensemble(models), *models))
    np.testing.assert_allclose(both, (first + second) / 2, atol=1e-6)
    np.testing.assert_allclose(both.sum(-1), 1, atol=1e-5)


def test_a_model_without_attention_has_none() -> None:
    with pytest.raises(UsageError, match="coverage_penalty=0.2 needs .* which the model ByteNet does not show"):
        check_attends(Ensemble([_rnn(), _bytenet()]), "coverage_penalty=0.2")
