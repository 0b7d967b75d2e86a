"""The LSTM encoder-decoder against NumPy, and what must not matter to it: padding, the future, the order of a beam."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite import config, registry
from t2t_lite.errors import UsageError
from t2t_lite.models.base import Model, check_model
from t2t_lite.models.rnn import Rnn
from t2t_lite.models.rnn_hparams import RnnHParams
from t2t_lite.train.run_dir import make_model
from tests import reference, rnn_reference

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
}


def _model(hparams: RnnHParams = TINY, sizes: tuple[int, int] = (V, V)) -> Rnn:
    model = Rnn.from_hparams(hparams, *sizes, sizes[0] == sizes[1])
    reference.randomise(model, 1)
    return model


@pytest.fixture(scope="module", params=VARIANTS.values(), ids=VARIANTS)
def model(request: Any) -> Rnn:
    return _model(config.replace(TINY, **request.param))


def _graph(function: Any, *more: Any) -> Any:
    """`function` of source and target, of any lengths, and `more`, in a graph."""
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
    plain = rnn_reference.Rnn(reference.weights_of(model), len(model.encoder.layers), UNITS)
    for i, source, target in _pairs():
        wanted, shares = plain(source, target)
        reference.assert_close(logits[i, : len(target)], wanted, 1e-5)
        reference.assert_close(maps[i, 0, 0, : len(target), : len(source)], shares, 1e-5)
        assert (maps[i, ..., len(source) :] == 0).all()
    np.testing.assert_allclose(maps.sum(-1), 1, atol=1e-6)


def test_two_vocabularies() -> None:
    model = _model(TINY, (31, V))
    wanted, _ = rnn_reference.Rnn(reference.weights_of(model), 2, UNITS)(np.array([30, 25, 1]), np.array([4, 1]))
    got = model({"source": np.array([[30, 25, 1]]), "target": np.array([[4, 1]])})
    reference.assert_close(np.asarray(got)[0], wanted, 1e-5)


def test_a_sentence_alone_equals_its_row_in_a_padded_batch(model: Rnn) -> None:
    call = _graph(model)
    padding = ((0, 2), (0, 3))  # rows of nothing but padding, too
    logits = np.asarray(call(np.pad(SOURCE, padding), np.pad(TARGET, padding)))
    assert np.isfinite(logits).all()
    for i, source, target in _pairs():
        alone = np.asarray(call(source[None], target[None]))
        np.testing.assert_allclose(logits[i, : len(target)], alone[0], rtol=0, atol=1e-5)


def test_a_later_target_changes_no_earlier_logits(model: Rnn) -> None:
    before = np.asarray(model(BATCH))
    changed = TARGET.copy()
    changed[:, 2] = 11
    after = np.asarray(model({"source": SOURCE, "target": changed}))
    np.testing.assert_array_equal(after[:, :3], before[:, :3])
    assert (np.abs(after[:, 3] - before[:, 3]).max(-1) > 1e-4).all()


def test_steps_equal_columns_of_the_whole_call_whatever_becomes_of_hypotheses(model: Rnn) -> None:
    beam, steps = 4, 7
    rng = np.random.default_rng(3)
    call = _graph(model)
    fixed, state, step = model.start(model.encode({"source": tf.constant(SOURCE)}), beam, steps)
    ids = np.zeros((3, beam, 0), "int32")
    for at in range(steps):
        previous = ids[:, :, -1] if at else np.zeros((3, beam), "int32")
        logits, state = step(tf.constant(previous), tf.constant(at), fixed, state)
        assert logits.dtype == tf.float32
        for k in range(beam):  # a later symbol, here 2, changes nothing before it
            target = np.concatenate([ids[:, k], np.full((3, 1), 2, "int32")], 1)
            wanted = np.asarray(call(SOURCE, target))[:, at]
            np.testing.assert_allclose(logits[:, k], wanted, rtol=0, atol=1e-5)
        parents = rng.integers(0, beam, (3, beam)).astype("int32")
        state = model.reorder(state, tf.constant(parents))
        symbols = rng.integers(1, V, (3, beam, 1)).astype("int32")
        ids = np.concatenate([np.take_along_axis(ids, parents[:, :, None], 1), symbols], 2)


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


@pytest.mark.parametrize("feeding", [True, False])
def test_dropout_depends_on_the_seed_alone_and_drops_the_inputs_of_layers(feeding: bool) -> None:
    model = _model(config.replace(TINY, input_feeding=feeding))
    seeds = [np.array([1, n], "int32") for n in (5, 5, 6)]
    one, again, other = (np.asarray(model(BATCH, seed=seed)) for seed in seeds)
    np.testing.assert_array_equal(one, again)
    assert np.abs(one - other).max() > 1e-2
    none = _model(config.replace(TINY, input_feeding=feeding, dropout=0.0))
    np.testing.assert_array_equal(none(BATCH, seed=seeds[0]), none(BATCH))
    # The mean over many masks is near what is without them, as what is kept is larger.
    hidden = _graph(model.hidden, tf.TensorSpec([2], tf.int32))
    mean = np.mean([hidden(SOURCE, TARGET, np.array([2, n], "int32")) for n in range(150)], 0)
    assert np.abs(mean - model.hidden(BATCH)).mean() < 0.1


def test_bfloat16_is_within_its_rounding() -> None:
    hparams = RnnHParams(num_layers=2, d_model=UNITS, dropout=0.0)
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


def _lstm(inputs: int, units: int, biases: int = 1) -> int:
    return 4 * units * (inputs + units + biases)


def _count(hparams: RnnHParams, vocabularies: int, biases: int = 1) -> int:
    """`vocabularies`: rows of all tables and of the softmax layer's bias divided by units come on top."""
    u, n = hparams.d_model, hparams.num_layers
    layers = 2 * n * _lstm(u, u, biases) + (4 * u * u if hparams.input_feeding else 0)
    attention = 3 * u * u + (u * u + u if hparams.attention_score == "additive" else 0)
    return vocabularies * u + layers + attention


@pytest.mark.parametrize("name", VARIANTS)
def test_the_number_of_parameters_is_the_formulas(name: str) -> None:
    hparams = config.replace(TINY, **VARIANTS[name])
    tables = 1 if hparams.share_embeddings else 3
    assert _model(hparams).count_params() == _count(hparams, tables * V) + V


def test_luongs_model_has_the_published_number_of_parameters() -> None:
    hparams = registry.hparams("luong")
    assert isinstance(hparams, RnnHParams)
    with_one_bias = _count(hparams, 3 * 50_000) + 50_000
    assert with_one_bias == 221_082_000
    assert _count(hparams, 3 * 50_000, biases=2) + 50_000 == 221_114_000  # fairseq's lstm_luong_wmt_en_de


def _products(graph: Any, times: int = 1) -> int:
    """FLOPs of all matrix products in a graph of fixed shapes; the bodies of loops run `times` times."""
    total = 0
    for operation in graph.get_operations():
        if operation.type in ("MatMul", "BatchMatMulV2"):
            transposed = operation.get_attr("transpose_a" if operation.type == "MatMul" else "adj_x")
            inner = operation.inputs[0].shape[-2 if transposed else -1]
            total += 2 * inner * int(np.prod(operation.outputs[0].shape))
        elif operation.type in ("While", "StatelessWhile"):
            total += times * _products(graph._get_function(operation.get_attr("body").name).graph)
    return total


@pytest.mark.parametrize("name", VARIANTS)
def test_the_count_of_flops_is_that_of_the_products_in_the_graph(name: str) -> None:
    hparams = config.replace(TINY, **VARIANTS[name])
    model = _model(hparams)
    length = 6  # of both sides, so that loops over either have the same number of rounds
    batch = {"source": tf.ones([3, length], tf.int32), "target": tf.ones([3, length], tf.int32)}

    def forward() -> Any:
        return tf.reduce_sum(model(batch, seed=tf.constant([1, 1])))

    def training() -> Any:
        with tf.GradientTape() as tape:
            loss = forward()
        return tape.gradient(loss, [w.value for w in model.trainable_weights])

    graphs = [tf.function(f, autograph=False).get_concrete_function().graph for f in (forward, training)]
    counted = [_products(graph, length) for graph in graphs]
    cost = model.cost
    assert counted == [3 * cost.forward_flops(length, length), 3 * cost.training_flops(length, length)]
    lengths = np.array([[7, 30, 0], [9, 4, 0]], np.int32)
    assert cost.forward_flops(*lengths) == sum(cost.forward_flops(s, t) for s, t in lengths.T.tolist())
    assert cost.forward_flops(5, 9) != cost.forward_flops(9, 5)
    assert cost.activation_bytes(2, 5, 9, 4) == 2 * cost.activation_bytes(1, 5, 9, 4) > 0


def test_it_keeps_the_contract_and_refuses_a_recipe_of_another_model() -> None:
    check_model("rnn", registry.MODELS.get("rnn"))
    assert issubclass(Rnn, Model)
    assert not Rnn.packs
    with pytest.raises(UsageError, match="The model 'rnn' needs a recipe of the class RnnHParams, not Transformer"):
        make_model("rnn", registry.hparams("tiny"), V, V, True)
