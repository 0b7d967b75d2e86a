"""The LSTM encoder-decoder against NumPy; padding, the future and the order of a beam change nothing."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite import config, registry
from t2t_lite.errors import UsageError
from t2t_lite.models.base import Model, check_model
from t2t_lite.models.rnn import Rnn
from t2t_lite.models.rnn_decoder import WIRINGS
from t2t_lite.models.rnn_hparams import RnnHParams
from t2t_lite.runs.run_dir import make_model
from t2t_lite.training.gradients import loss_and_gradients
from tests import reference, rnn_reference
from tests.model_checks import (
    assert_alone_equals_padded,
    assert_cost_is_counted,
    assert_later_targets_change_nothing_before,
    assert_steps_equal_columns,
)

V, UNITS = 20, 8
TINY = RnnHParams(num_layers=2, d_model=UNITS, dropout=0.3)
SOURCE = np.array([[5, 9, 3, 17, 1], [7, 7, 1, 0, 0], [2, 1, 0, 0, 0]], "int32")
TARGET = np.array([[4, 8, 1, 0, 0, 0], [6, 5, 4, 3, 12, 1], [1, 0, 0, 0, 0, 0]], "int32")
BATCH = {"source": SOURCE, "target": TARGET}
VARIANTS: dict[str, dict[str, Any]] = {
    "general": {},
    "additive": {"attention_score": "additive"},
    "no_feeding": {"input_feeding": False},
    "one_layer_three_tables": {"num_layers": 1, "share_embeddings": False},
    "gnmt": {"encoder": "gnmt", "wiring": "gnmt", "attention_score": "additive", "num_layers": 4},
    "gnmt_v2": {"encoder": "gnmt", "wiring": "gnmt_v2", "attention_score": "normed_additive", "num_layers": 3},
    "gnmt_not_fed": {"encoder": "interleaved", "wiring": "gnmt", "attention_score": "product", "input_feeding": False},
    "gnmt_v2_not_fed": {
        "encoder": "bi",
        "wiring": "gnmt_v2",
        "attention_score": "dot",
        "num_layers": 3,
        "input_feeding": False,
        "share_embeddings": False,
    },
    "bi": {"encoder": "bi", "wiring": "attention_wrapper", "attention_score": "additive", "softmax_bias": False},
    "vinyals": {"encoder": "reversed", "wiring": "vinyals", "attention_score": "additive", "share_embeddings": False},
}


def _model(hparams: RnnHParams = TINY, sizes: tuple[int, int] = (V, V)) -> Rnn:
    model = Rnn.from_hparams(hparams, *sizes, sizes[0] == sizes[1])
    reference.randomise(model, 1)
    return model


@pytest.fixture(scope="module", params=VARIANTS.values(), ids=VARIANTS)
def model(request: Any) -> Rnn:
    return _model(config.replace(TINY, **request.param))


def _plain(model: Rnn) -> rnn_reference.Rnn:
    [wiring] = [name for name, wiring in WIRINGS.items() if wiring == model.decoder.wiring]
    names = model.encoder.kind, wiring, model.decoder.attention.score
    return rnn_reference.Rnn(reference.weights_of(model), model.encoder.num_layers, UNITS, *names)


def _graph(function: Any, *more: Any) -> Any:
    """A graph of `function`, for source and target of any lengths and `more`."""
    spec = tf.TensorSpec([None, None], tf.int32)

    def of_ids(source: Any, target: Any, *others: Any) -> Any:
        return function({"source": source, "target": target}, *others)

    return tf.function(of_ids, input_signature=[spec, spec, *more], autograph=False)


def _pairs() -> list[tuple[int, np.ndarray, np.ndarray]]:
    return [(i, s[s > 0], t[t > 0]) for i, (s, t) in enumerate(zip(SOURCE, TARGET, strict=True))]


def test_logits_and_weights_equal_the_equations(model: Rnn) -> None:
    logits, maps = np.asarray(model(BATCH)), np.asarray(model.attention_maps(BATCH)["memory"])
    assert logits.dtype == maps.dtype == np.float32
    assert maps.shape == (3, 1, 1, 6, 5)
    plain, late = _plain(model), model.decoder.wiring.late
    for i, source, target in _pairs():
        wanted, shares = plain(source, target)
        if late:
            shares = np.pad(shares[:-1], ((1, 0), (0, 0)))
        reference.assert_close(logits[i, : len(target)], wanted, 1e-5)
        reference.assert_close(maps[i, 0, 0, : len(target), : len(source)], shares, 1e-5)
        assert (maps[i, ..., len(source) :] == 0).all()
    np.testing.assert_allclose(maps[..., int(late) :, :].sum(-1), 1, atol=1e-6)


def test_two_vocabularies() -> None:
    model = _model(TINY, (31, V))
    wanted, _ = rnn_reference.Rnn(reference.weights_of(model), 2, UNITS)(np.array([30, 25, 1]), np.array([4, 1]))
    got = model({"source": np.array([[30, 25, 1]]), "target": np.array([[4, 1]])})
    reference.assert_close(np.asarray(got)[0], wanted, 1e-5)


@pytest.mark.commit("gnmt_not_fed", "bi", "vinyals")
def test_a_sentence_alone_equals_its_row_in_a_padded_batch(model: Rnn) -> None:
    assert_alone_equals_padded(model, BATCH, 1e-5)


def test_a_later_target_changes_no_earlier_logits(model: Rnn) -> None:
    assert_later_targets_change_nothing_before(model, BATCH)


@pytest.mark.commit("gnmt_v2", "gnmt_not_fed", "vinyals")
def test_steps_equal_columns_of_the_whole_call_whatever_becomes_of_hypotheses(model: Rnn) -> None:
    assert_steps_equal_columns(model, SOURCE, V)


@pytest.mark.commit("vinyals")
def test_a_graph_of_any_shape_gives_the_same_and_has_gradients(model: Rnn) -> None:
    def whole(batch: Any) -> Any:
        with tf.GradientTape() as tape:
            logits = model(batch)
            loss = tf.reduce_sum(tf.square(logits))
        gradients = tape.gradient(loss, [w.value for w in model.trainable_weights])
        return logits, [tf.convert_to_tensor(gradient) for gradient in gradients]

    call = _graph(whole)
    for rows in (3, 2):
        logits, gradients = call(SOURCE[:rows], TARGET[:rows])
        np.testing.assert_allclose(logits, model({"source": SOURCE[:rows], "target": TARGET[:rows]}), atol=1e-5)
    assert all(np.abs(gradient).max() > 0 for gradient in gradients)


def test_gradients_are_the_slopes() -> None:
    model = _model()
    value = np.random.default_rng(4).standard_normal((3, 6, V))

    @tf.function(autograph=False)
    def loss() -> Any:
        return tf.reduce_sum(model(BATCH) * value)

    with tf.GradientTape() as tape:
        total = loss()
    for weight, gradient in zip(
        model.trainable_weights, tape.gradient(total, [w.value for w in model.trainable_weights]), strict=True
    ):
        gradient = np.asarray(tf.convert_to_tensor(gradient), np.float64)
        before, small = np.asarray(weight), 1e-2 / np.linalg.norm(gradient)
        ends = []
        for sign in (1, -1):
            weight.assign(before + sign * small * gradient)
            ends.append(float(loss()))
        weight.assign(before)
        assert (ends[0] - ends[1]) / (2 * small) == pytest.approx(float((gradient**2).sum()), rel=0.02), weight.path


@pytest.mark.commit("general", "vinyals")
@pytest.mark.parametrize("name", ["general", "no_feeding", "gnmt", "gnmt_v2_not_fed", "vinyals"])
def test_dropout_depends_on_the_seed_alone_and_drops_the_inputs_of_layers(name: str) -> None:
    model = _model(config.replace(TINY, **VARIANTS[name]))
    seeds = [np.array([1, n, 0], "int32") for n in (5, 5, 6)]
    one, again, other = (np.asarray(model(BATCH, seed=seed)) for seed in seeds)
    np.testing.assert_array_equal(one, again)
    assert np.abs(one - other).max() > 1e-2
    none = _model(config.replace(TINY, **VARIANTS[name], dropout=0.0))
    np.testing.assert_array_equal(none(BATCH, seed=seeds[0]), none(BATCH))
    # Kept values are scaled up, so the mean over many masks is near the output without dropout.
    hidden = _graph(model.hidden, tf.TensorSpec([3], tf.int32))
    mean = np.mean([hidden(SOURCE, TARGET, np.array([2, n, 0], "int32")) for n in range(150)], 0)
    assert np.abs(mean - model.hidden(BATCH)).mean() < 0.1


@pytest.mark.commit("one_layer_three_tables")
@pytest.mark.parametrize("name", VARIANTS)
def test_two_halves_of_the_rows_drop_what_the_whole_drops(name: str) -> None:
    model = _model(config.replace(TINY, **VARIANTS[name]))
    specs = {side: tf.TensorSpec([None, None], tf.int32) for side in BATCH}

    def gradients(shards: int) -> Any:
        def run(batch: Any) -> Any:
            seed = tf.constant([3, -4, 0])
            return loss_and_gradients(model, batch, seed, 11.0, (0.1, "all"), groups=0, shards=shards, jit=False)

        loss, found = tf.function(run, input_signature=[specs], autograph=False)(BATCH)
        return [loss, *found]

    whole = [np.asarray(tf.convert_to_tensor(each)) for each in gradients(1)]
    least = 1e-8 * max(np.abs(each).max() for each in whole)  # some gradients are a millionth of others: rounding
    for one, two in zip(whole, gradients(2), strict=True):
        np.testing.assert_allclose(two, one, rtol=0, atol=max(1e-5 * np.abs(one).max(), least))


@pytest.mark.parametrize("name", ["general", "gnmt", "bi", "vinyals"])
def test_bfloat16_is_within_its_rounding(name: str) -> None:
    hparams = config.replace(TINY, **VARIANTS[name], dropout=0.0)
    exact, rounded = _model(hparams), _model(config.replace(hparams, precision="bfloat16"))
    assert {w.dtype for w in rounded.weights} == {"float32"}
    assert rounded.hidden(BATCH).dtype == tf.bfloat16
    memory = rounded.encode(BATCH)
    assert {value.dtype for value in tf.nest.flatten(memory["states"])} == {tf.float32}
    _, state, step = rounded.start(memory, 2, 5)
    logits, after = step(np.zeros((3, 2), "int32"), 0, _, state)
    assert logits.dtype == tf.float32
    tf.nest.map_structure(lambda a, b: (a.dtype, a.shape) == (b.dtype, b.shape) or pytest.fail("changed"), state, after)
    reference.assert_close(np.asarray(rounded(BATCH)), np.asarray(exact(BATCH), np.float64), 2**-5)
    reference.assert_close(np.asarray(logits[:, 0]), np.asarray(exact(BATCH), np.float64)[:, 0], 2**-5)


@pytest.mark.commit("vinyals")
@pytest.mark.parametrize("name", VARIANTS)
def test_the_count_of_flops_is_that_of_the_products_in_the_graph(name: str) -> None:
    model = _model(config.replace(TINY, **VARIANTS[name]))
    assert_cost_is_counted(model)
    assert model.cost.forward_flops(5, 9) != model.cost.forward_flops(9, 5)


def test_it_keeps_the_contract_and_refuses_a_recipe_of_another_model() -> None:
    check_model("rnn", registry.MODELS.get("rnn"))
    assert issubclass(Rnn, Model)
    assert not Rnn.packs
    with pytest.raises(UsageError, match="The model 'rnn' needs a recipe of the class RnnHParams, not Transformer"):
        make_model("rnn", registry.hparams("tiny"), V, V, True)
