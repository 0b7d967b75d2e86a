"""Threads that use one model: while one traces it or looks at its attention, others do, too."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

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

pytestmark = pytest.mark.commit

HPARAMS = TransformerHParams(num_layers=1, d_model=16, d_ff=24, num_heads=2, beam_size=2, extra_length=3)
LINE = "a line of words"

Values = list[float]
Action = Callable[[Translator], Values]


@pytest.fixture(scope="module")
def make() -> Callable[[], Translator]:
    """Makes translators of one model, each of which traces graphs of its own."""
    vocabulary = train_vocabulary([LINE] * 3, size=40)
    model = Transformer.from_hparams(HPARAMS, vocabulary.size, vocabulary.size, True)
    reference.randomise(model, 1, scale=2)
    return lambda: Translator(model, vocabulary, vocabulary, HPARAMS)


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
        # is_full: first called where prepared matrices stand for the weights.
        pytest.param(_search, "is_full", _search, marks=pytest.mark.nightly),
        (_search, "is_full", _score),
        (_sample, "is_full", _attention),
        (_score, "encode", _sample),
        (_attention, "encode", _attention),
    ],
)
def test_a_thread_goes_through_a_model_while_another_is_within_it(
    make: Callable[[], Translator],
    alone: dict[Action, Values],
    first: Action,
    method: str,
    second: Action,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other, plain = make(), getattr(Transformer, method)
    others: list[Values] = []

    def held(*args: Any, **kwargs: Any) -> Any:
        if not others:
            others.append([])  # so that the second thread is not held
            with ThreadPoolExecutor(1) as pool:
                others.append(pool.submit(second, other).result(120))
        return plain(*args, **kwargs)

    monkeypatch.setattr(Transformer, method, held)
    found = first(make())
    np.testing.assert_allclose(others[1], alone[second], rtol=1e-4)
    np.testing.assert_allclose(found, alone[first], rtol=1e-4)
