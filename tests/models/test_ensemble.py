"""The mean of several models' probabilities against NumPy, and an ensemble's steps against its whole calls."""

import itertools
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_lite import config
from t2t_lite.errors import UsageError
from t2t_lite.models.base import Model, check_model
from t2t_lite.models.bytenet import ByteNet
from t2t_lite.models.bytenet_hparams import ByteNetHParams
from t2t_lite.models.convs2s import ConvS2S
from t2t_lite.models.convs2s_hparams import ConvS2SHParams
from t2t_lite.models.ensemble import Ensemble, log_mean
from t2t_lite.models.moe import Moe
from t2t_lite.models.moe_hparams import MoeHParams
from t2t_lite.models.rnn import Rnn
from t2t_lite.models.rnn_hparams import RnnHParams
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.models.transformer_moe import TransformerMoe
from t2t_lite.models.transformer_moe_hparams import TransformerMoeHParams
from t2t_lite.ops.int8 import int8_matrices, quantize
from tests import reference
from tests.model_checks import assert_steps_equal_columns
from tests.searches import EOS, hypotheses, penalty, search_graph

pytestmark = pytest.mark.commit

V = 20
NARROW = TransformerHParams(num_layers=2, d_model=8, d_ff=16, num_heads=2, dropout=0.0)
WIDE = TransformerHParams(num_layers=1, d_model=24, d_ff=16, num_heads=4, norm="pre", dropout=0.0)
RNN = RnnHParams(num_layers=2, d_model=10, dropout=0.0)
Recipes = tuple[tuple[type[Model], Any], ...]
RECIPES: Recipes = ((Transformer, NARROW), (Rnn, RNN), (Transformer, WIDE))
LAYERS = {"encoder_layers": "2x8x3", "decoder_layers": "8x3+6x2"}
EXPERTS: dict[str, Any] = {"d_model": 8, "d_ff": 8, "num_experts": 4, "experts_per_token": 2}
OTHERS: Recipes = (
    (ConvS2S, ConvS2SHParams(**LAYERS, d_model=8, d_out=8, max_positions=60)),
    (ByteNet, ByteNetHParams(num_layers=2, d_model=4, dilations=2)),
    (Moe, MoeHParams(**EXPERTS, cells=6)),
    (TransformerMoe, TransformerMoeHParams(**EXPERTS, num_layers=2, num_heads=2)),
)
SOURCE = np.array([[5, 9, 3, 17, 1], [7, 7, 1, 0, 0], [2, 1, 0, 0, 0]], "int32")
TARGET = np.array([[4, 8, 1, 0, 0, 0], [6, 5, 4, 3, 12, 1], [1, 0, 0, 0, 0, 0]], "int32")
BATCH = {"source": SOURCE, "target": TARGET}


def _models(precision: str = "float32", recipes: Recipes = RECIPES, size: int = V) -> list[Any]:
    models = []
    for seed, (model_class, hparams) in enumerate(recipes):
        models.append(model_class.from_hparams(config.replace(hparams, precision=precision), size, size, True))
        reference.randomise(models[-1], seed, 2.0)
    return models


@pytest.fixture(scope="module")
def ensemble() -> Ensemble:
    return Ensemble(_models())


def _mean(logits: Any) -> np.ndarray:
    """log of the mean of the softmaxes, in float64."""
    return np.log(np.mean([reference.softmax(np.asarray(values, np.float64)) for values in logits], 0))


def _search(model: Any, beam: int, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    ids, scores = search_graph(model, beam, extra=25, **options)(SOURCE)
    return ids.numpy(), scores.numpy()


def test_probabilities_are_the_mean_of_the_members(ensemble: Ensemble) -> None:
    logits = [model(BATCH) for model in ensemble.models]
    got = np.asarray(ensemble(BATCH))
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, _mean(logits), rtol=0, atol=2e-6)
    np.testing.assert_allclose(np.exp(got.astype(np.float64)).sum(-1), 1, atol=1e-6)
    for one, other in itertools.combinations(logits, 2):  # if members were alike, any mean would be right
        assert np.abs(np.asarray(one) - np.asarray(other)).max() > 0.5


@pytest.mark.nightly
def test_members_of_any_kind_have_one_mean_and_its_steps() -> None:
    mixed = Ensemble(_models(recipes=OTHERS))
    logits = [model(BATCH) for model in mixed.models]
    np.testing.assert_allclose(mixed(BATCH), _mean(logits), rtol=0, atol=2e-6)
    for one, other in itertools.combinations(logits, 2):
        assert np.abs(np.asarray(one) - np.asarray(other)).max() > 0.5
    assert_steps_equal_columns(mixed, SOURCE, V)


@pytest.mark.nightly
@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_a_search_as_wide_as_the_tree_finds_the_best_of_all_outputs(alpha: float) -> None:
    """All outputs of up to 4 symbols; their scores are computed from the members' own logits, in float64."""
    models, source, extra = _models(recipes=RECIPES[:2], size=4), (2, 3, EOS), 1
    longest = len(source) + extra
    outputs = [(*start, EOS) for length in range(longest) for start in itertools.product((2, 3), repeat=length)]
    target = np.zeros((len(outputs), longest), "int32")
    for row, ids in zip(target, outputs, strict=True):
        row[: len(ids)] = ids
    batch = {"source": np.array([source] * len(outputs), "int32"), "target": target}
    logp = _mean([model(batch) for model in models])
    scores = {
        ids: sum(row[at, symbol] for at, symbol in enumerate(ids)) / penalty(len(ids), alpha)
        for ids, row in zip(outputs, logp, strict=True)
    }
    ranked = sorted(outputs, key=lambda ids: -scores[ids])
    found, of_found = search_graph(Ensemble(models), 16, alpha, extra, early_stop=False)(batch["source"][:1])
    assert hypotheses(found.numpy()[0])[: len(outputs)] == ranked
    np.testing.assert_allclose(of_found[0, : len(outputs)], [scores[ids] for ids in ranked], rtol=0, atol=1e-5)
    for model in models:  # neither member alone would give this order
        own = _mean([model(batch)])
        alone = {
            ids: sum(row[at, symbol] for at, symbol in enumerate(ids)) for ids, row in zip(outputs, own, strict=True)
        }
        assert sorted(outputs, key=lambda ids: -alone[ids] / penalty(len(ids), alpha)) != ranked


@pytest.mark.nightly
def test_steps_equal_columns_of_the_whole_call_whatever_becomes_of_hypotheses(ensemble: Ensemble) -> None:
    assert assert_steps_equal_columns(ensemble, SOURCE, V, tf.constant(40)) >= 1


@pytest.mark.nightly
def test_a_model_and_itself_are_that_model() -> None:
    for model in _models():
        twice = Ensemble([model, model])
        np.testing.assert_array_equal(twice(BATCH), tf.nn.log_softmax(model(BATCH)))
        (ids, scores), (alone, of_alone) = _search(twice, 3), _search(model, 3)
        np.testing.assert_array_equal(ids, alone)
        np.testing.assert_allclose(scores, of_alone, rtol=0, atol=1e-5)


@pytest.mark.nightly
def test_two_members_have_no_order() -> None:
    one, other, _ = _models()
    np.testing.assert_array_equal(Ensemble([one, other])(BATCH), Ensemble([other, one])(BATCH))
    for got, wanted in zip(_search(Ensemble([one, other]), 4), _search(Ensemble([other, one]), 4), strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_small_probabilities_keep_their_logarithms() -> None:
    low, never = np.array([0.0, -200.0, -500.0, -np.inf]), np.array([0.0, -300.0, -np.inf, -np.inf])
    got = np.asarray(log_mean([keras.ops.convert_to_tensor(x.astype("float32")) for x in (low, never)]))
    half = np.log(0.5)
    np.testing.assert_allclose(got, [0, -200 + half, -500 + half, -np.inf], rtol=1e-6)


@pytest.mark.nightly
def test_bfloat16_members_keep_their_rounding_and_the_mean_is_exact() -> None:
    one, other, wide = _models("bfloat16")
    mixed = [one, _models()[1], wide]
    for models in ([one, other, wide], mixed):
        got = np.asarray(Ensemble(models)(BATCH))
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, _mean([model(BATCH) for model in models]), rtol=0, atol=2e-6)
    ids, scores = _search(Ensemble(mixed), 3)
    assert ids.any(-1).all()
    assert np.isfinite(scores).all()


@pytest.mark.nightly
@pytest.mark.usefixtures("int8_machine")
def test_int8_members_are_quantized_one_by_one() -> None:
    models = _models()
    for model in models:
        quantize(model)
    eight = Ensemble(models)
    matrices = int8_matrices(eight)
    assert len(matrices) == sum(len(int8_matrices(model)) for model in models)
    assert {name.partition("/")[0] for name in matrices} == {"member_1", "member_2", "member_3"}
    call = tf.function(lambda model: model({name: tf.constant(ids) for name, ids in BATCH.items()}), autograph=False)
    got = np.asarray(call(eight))
    np.testing.assert_allclose(got, _mean([call(model) for model in models]), rtol=0, atol=1e-5)
    exact = np.asarray(Ensemble(_models())(BATCH))
    assert 1e-4 < np.abs(got - exact).max() < 0.5
    with_itself, alone = _search(Ensemble([models[0], models[0]]), 3), _search(models[0], 3)
    np.testing.assert_array_equal(with_itself[0], alone[0])
    np.testing.assert_allclose(with_itself[1], alone[1], rtol=0, atol=1e-5)


def test_costs_are_sums(ensemble: Ensemble) -> None:
    costs = [model.cost for model in ensemble.models]
    lengths = np.array([5, 3]), np.array([6, 2])
    assert ensemble.cost.forward_flops(*lengths) == sum(cost.forward_flops(*lengths) for cost in costs)
    assert ensemble.cost.activation_bytes(2, 5, 6, 4) == sum(cost.activation_bytes(2, 5, 6, 4) for cost in costs)


def test_it_has_the_weights_of_all_and_keeps_the_contract_but_for_training(ensemble: Ensemble) -> None:
    check_model("ensemble", Ensemble)
    assert [w.path for w in ensemble.weights] == [w.path for model in ensemble.models for w in model.weights]
    assert list(ensemble.members()) == ["member_1/", "member_2/", "member_3/"]
    assert list(ensemble.models[0].members()) == [""]
    assert ensemble.attention_maps(BATCH) == {}
    for training in (
        lambda: ensemble.hidden(BATCH),
        ensemble.output,
        lambda: Ensemble.from_hparams(NARROW, V, V, True),
    ):
        with pytest.raises(
            UsageError, match="An ensemble decodes, scores and is exported; it is not trained. Train each"
        ):
            training()
