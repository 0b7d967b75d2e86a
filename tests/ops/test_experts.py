"""Where experts are computed one by one: in every graph that XLA does not compile."""

from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf

from t2t_lite import registry
from t2t_lite.decoding.beam_search import beam_search
from t2t_lite.decoding.piece_scores import log_probs
from t2t_lite.decoding.sampling import Sampling, sample
from t2t_lite.decoding.translate import Translator
from t2t_lite.export.export_folder import SIGNATURES
from t2t_lite.export.saved_model import ServedModel
from t2t_lite.insights.sentence import attend
from t2t_lite.layers import mixture_of_experts
from t2t_lite.layers.mixture_of_experts import blocks
from t2t_lite.metrics import names
from t2t_lite.ops.graph import graph
from t2t_lite.runs.run_dir import make_model
from t2t_lite.samplers.base import make_sampler
from t2t_lite.text.vocabulary_training import train_vocabulary
from t2t_lite.training.evaluate import Evaluator
from t2t_lite.training.gradients import loss_and_gradients

pytestmark = pytest.mark.commit

LINES = ("a man rides a horse", "two dogs run in the park")
IDS = tf.TensorSpec([None, None], tf.int32)


@pytest.fixture(scope="module", params=["moe_tiny", pytest.param("transformer_moe_tiny", marks=pytest.mark.nightly)])
def translator(request: Any) -> Translator:
    hparams = registry.hparams(request.param)
    vocabulary = train_vocabulary(LINES * 3, size=60)
    model = make_model(registry.model_of(request.param), hparams, vocabulary.size, vocabulary.size, True)
    return Translator(model, vocabulary, vocabulary, hparams)


@pytest.fixture
def in_blocks(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The experts of each call of the form for XLA."""
    calls: list[Any] = []

    def spy(experts: Any, n: int) -> Any:
        calls.append(experts)
        return blocks(experts, n)

    monkeypatch.setattr(mixture_of_experts, "blocks", spy)
    return calls


def _trace(function: Any, *signature: Any, jit: bool = False) -> None:
    graph(function, jit_compile=jit).get_concrete_function(*signature)


def _evaluate(translator: Translator) -> None:
    store: Any = SimpleNamespace(target_vocabulary=translator.target_vocabulary, splits=lambda: ())
    Evaluator(translator.model, store, translator, names.metric("bleu"))._sums.get_concrete_function()


def _export(translator: Translator) -> None:
    names = [name for name in SIGNATURES if name != "alignments"]  # which no model with experts has
    for signature in ServedModel(translator, names).signatures.values():
        signature.get_concrete_function()


SAMPLING = Sampling(make_sampler("random", {}), 1)
WITHOUT_XLA = {
    "beam search": lambda t: _trace(lambda s: beam_search(t.model, s, beam_size=2, alpha=0.6, extra_length=3), IDS),
    "sampling": lambda t: _trace(lambda s: sample(t.model, s, SAMPLING, num_samples=2, extra_length=3), IDS),
    "dev loss": _evaluate,
    "score": lambda t: _trace(lambda source, target: log_probs(t.model, source, target), IDS, IDS),
    "attention maps": lambda t: attend(t, LINES[:1], LINES[1]),
    "export": _export,
}


@pytest.mark.parametrize(
    "what", [pytest.param(what, marks=pytest.mark.nightly) if what == "export" else what for what in WITHOUT_XLA]
)
def test_they_are_computed_one_by_one(translator: Translator, in_blocks: list[Any], what: str) -> None:
    WITHOUT_XLA[what](translator)
    assert not in_blocks


@pytest.mark.nightly
@pytest.mark.parametrize("jit", [False, True])
def test_training_computes_them_in_blocks_with_xla_alone(
    translator: Translator, in_blocks: list[Any], jit: bool
) -> None:
    def gradients(source: Any, target: Any) -> Any:
        batch, seed = {"source": source, "target": target}, tf.constant([1, 2, 0])
        how: Any = {"groups": 1, "shards": 1, "jit": jit}
        return loss_and_gradients(translator.model, batch, seed, 9.0, (0.1, "all"), **how)[1]

    _trace(gradients, IDS, IDS, jit=jit)
    assert bool(in_blocks) is jit
