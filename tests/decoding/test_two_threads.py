"""Threads that use one model: while one traces it or looks at its attention, the others wait."""

from collections.abc import Callable

import numpy as np
import pytest

from t2t_lite.decoding.sampling import Sampling
from t2t_lite.decoding.score import score
from t2t_lite.decoding.translate import Translator
from t2t_lite.insights.sentence import attend
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.samplers.base import make_sampler
from t2t_lite.text.vocabulary_training import train_vocabulary
from tests import reference
from tests.two_threads import Second, SpyLock

pytestmark = pytest.mark.commit

HPARAMS = TransformerHParams(num_layers=1, d_model=16, d_ff=24, num_heads=2, beam_size=2, extra_length=3)
LINE = "a line of words"
LOCKED = ("ops.replaced", "decoding.beam_search", "decoding.sampling", "decoding.score", "insights.sentence")

Values = list[float]
Action = Callable[[Translator], Values]


@pytest.fixture(scope="module")
def make() -> Callable[[], Translator]:
    """Makes translators of one model, each of which traces graphs of its own."""
    vocabulary = train_vocabulary([LINE] * 3, size=40)
    model = Transformer.from_hparams(HPARAMS, vocabulary.size, vocabulary.size, True)
    reference.randomise(model, 1, scale=2)
    return lambda: Translator.from_hparams(model, vocabulary, vocabulary, HPARAMS)


def _search(translator: Translator) -> Values:
    return [hypothesis.score for hypothesis in translator.translate([LINE], nbest=2)[0]]


def _sample(translator: Translator) -> Values:
    translator.sampling = Sampling(make_sampler("random", {}), 1)
    return _search(translator)


def _score(translator: Translator) -> Values:
    return [score(translator, [LINE], [LINE])[0].log_prob]


def _attention(translator: Translator) -> Values:
    return np.concatenate([x.ravel() for x in attend(translator, [LINE], LINE)[0].maps().values()]).tolist()


@pytest.fixture(scope="module")
def alone(make: Callable[[], Translator]) -> dict[Action, Values]:
    return {action: action(make()) for action in (_search, _sample, _score, _attention)}


@pytest.mark.commit("_search-is_full-_search", "_score-encode-_sample", "_attention-encode-_attention")
@pytest.mark.parametrize(
    ("first", "method", "second"),
    [
        # is_full: first called where the prepared weights are in the layers.
        (_search, "is_full", _search),
        (_search, "is_full", _score),
        (_sample, "is_full", _attention),
        (_score, "encode", _sample),
        (_attention, "encode", _attention),
    ],
)
def test_a_thread_waits_for_another_that_is_within_a_model(
    make: Callable[[], Translator],
    alone: dict[Action, Values],
    first: Action,
    method: str,
    second: Action,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lock = SpyLock()
    for module in LOCKED:
        monkeypatch.setattr(f"t2t_lite.{module}.LOCK", lock, raising=False)
    other = make()
    later = Second(monkeypatch, Transformer, method, lock, lambda: second(other))
    found = first(make())
    np.testing.assert_allclose(later.result(), alone[second], rtol=1e-4)
    np.testing.assert_allclose(found, alone[first], rtol=1e-4)
