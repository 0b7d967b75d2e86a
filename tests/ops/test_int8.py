"""Int8 weights: a matrix against NumPy, and an int8 model against one that computes the same sums in float64."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite import config
from t2t_lite.layers.weight_norm import WeightNormLinear
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.ops import int8
from t2t_lite.ops.int8 import Int8Matrix, int8_matrices, quantize
from t2t_lite.ops.outer_graph import OuterGraph
from tests import reference
from tests.searches import search_graph

V, EOS = 30, 1
MODEL = TransformerHParams(num_layers=2, d_model=16, d_ff=48, num_heads=2)
SOURCES = np.array([[5, 9, 20, 7, EOS], [11, 3, EOS, 0, 0], [29, 28, 4, EOS, 0]], np.int32)

pytestmark = pytest.mark.usefixtures("int8_machine")


def _matrix(draw: np.random.Generator, outputs: int, inputs: int = 24) -> Int8Matrix:
    values = draw.integers(-127, 128, (outputs, inputs)).astype(np.int8)
    return Int8Matrix(tf.constant(values), tf.constant(draw.uniform(0.5, 2, outputs).astype(np.float32)))


def _dense(matrix: Int8Matrix) -> np.ndarray:
    """float64 [I, O]."""
    return np.float64(matrix.values).T * np.float64(matrix.scales)


def _rounded(rows: np.ndarray) -> np.ndarray:
    """Each row, rounded to multiples of a 127th of its largest number."""
    unit = np.maximum(np.abs(np.float64(rows)).max(1, keepdims=True), 1e-30) / 127
    return np.rint(rows / unit) * unit


@pytest.mark.parametrize("steps", [False, True])
def test_a_matrix_multiplies_with_rounded_rows(steps: bool) -> None:
    draw = np.random.default_rng(2)
    matrices = [_matrix(draw, outputs) for outputs in (40, 7, 3)]
    rows = np.float32(draw.standard_normal((6, 24)) * 10.0 ** draw.integers(-3, 4, (6, 1)))
    rows[4] = 0

    @tf.function(input_signature=[tf.TensorSpec([None, 24])], autograph=False)
    def products(rows: Any) -> list[Any]:
        outer = OuterGraph()
        first, *others = (matrix.for_steps(outer, False) if steps else matrix for matrix in matrices)
        return [*first.multiply(rows), *first.multiply(rows, *others)]

    alone, *together = products(rows)
    for got, matrix in zip((alone, *together), (matrices[0], *matrices), strict=True):
        reference.assert_close(got.numpy(), _rounded(rows) @ _dense(matrix), 1e-6)
    for i in range(len(rows)):  # a row does not depend on the others
        for one, whole in zip(products(rows[i : i + 1])[1:], together, strict=True):
            np.testing.assert_array_equal(one[0], whole[i])
    assert not alone[4].numpy().any()


def test_rows_are_not_rounded_if_one_of_the_matrices_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(2)
    small, *large = (_matrix(draw, outputs) for outputs in (40, 41, 42))
    monkeypatch.setattr(int8, "SMALL", 40 * 24)
    rows = np.float32(draw.standard_normal((6, 24)))

    @tf.function(autograph=False)
    def products() -> list[Any]:
        return [*small.multiply(rows), *small.multiply(rows, *large), *large[0].multiply(rows, large[1])]

    found = products()
    factors = [np.float64(rows)] * 4 + [_rounded(rows)] * 2
    for got, factor, matrix in zip(found, factors, [small, small, *large, *large], strict=True):
        reference.assert_close(got.numpy(), factor @ _dense(matrix), 1e-6)


@pytest.mark.parametrize("prepack", [False, True])
@pytest.mark.parametrize("steps", [False, True])
def test_expanded_integers_multiply_rows_that_are_not_rounded(steps: bool, prepack: bool) -> None:
    draw = np.random.default_rng(2)
    matrices = [_matrix(draw, outputs) for outputs in (40, 7, 3)]
    dense = [_dense(matrix) for matrix in matrices]
    for matrix in matrices:
        matrix.values = tf.Variable(tf.cast(matrix.values, tf.float32))

    @tf.function(input_signature=[tf.TensorSpec([None, 24])], autograph=False)
    def products(rows: Any) -> list[Any]:
        outer = OuterGraph()
        first, *others = (matrix.for_steps(outer, prepack) if steps else matrix for matrix in matrices)
        return [*first.multiply(rows), *first.multiply(rows, *others)]

    rows = np.float32(draw.standard_normal((6, 24)))
    for got, wanted in zip(products(rows), (dense[0], *dense), strict=True):
        reference.assert_close(got.numpy(), np.float64(rows) @ wanted, 1e-6)


@pytest.mark.parametrize("steps", [False, True])
def test_vectors_of_outputs_and_what_gives_them_other_lengths(steps: bool) -> None:
    matrix, ids = _matrix(np.random.default_rng(3), 9), np.array([[0, 8], [3, 3]])
    reference.assert_close(matrix.take(ids).numpy(), _dense(matrix).T[ids], 1e-6)
    gains = np.float32(np.random.default_rng(4).standard_normal(9))

    @tf.function(autograph=False)
    def factors() -> Any:
        return (matrix.for_steps(OuterGraph(), False) if steps else matrix).norm_factors(gains, "float32")

    reference.assert_close(factors().numpy(), gains / np.linalg.norm(_dense(matrix), axis=0), 1e-6)


def test_normalised_weights_are_those_of_rounded_directions() -> None:
    layer = WeightNormLinear(24, 40, 0.5, name="linear")
    layer.build()
    quantize(layer)
    rows = np.float32(np.random.default_rng(5).standard_normal((6, 24)))
    dense = _dense(layer.direction)
    dense *= np.float64(layer.gain) / np.linalg.norm(dense, axis=0)
    got = tf.function(layer, autograph=False)(rows)
    reference.assert_close(got.numpy(), _rounded(rows) @ dense, 1e-6)


class _Slow(Int8Matrix):
    """Computes the same sums in float64."""

    def multiply(self, rows: Any, *others: Any) -> list[Any]:
        unit = tf.maximum(tf.reduce_max(tf.abs(rows), 1, keepdims=True), 1e-30) / 127
        rounded = tf.cast(tf.round(rows / unit), tf.float64)
        wholes = [rounded @ tf.cast(tf.transpose(matrix.values), tf.float64) for matrix in (self, *others)]
        scales = [matrix.scales for matrix in (self, *others)]
        return [tf.cast(whole, tf.float32) * unit * scale for whole, scale in zip(wholes, scales, strict=True)]


def _model(seed: int = 4, **changes: Any) -> Transformer:
    model = Transformer.from_hparams(config.replace(MODEL, **changes), V, V, True)
    reference.randomise(model, seed, 2.0)
    return model


def _quantized(seed: int = 4, slow: bool = False, **changes: Any) -> Transformer:
    model = _model(seed, **changes)
    quantize(model)
    if slow:
        for layer in model._flatten_layers():
            for name, value in vars(layer).items():
                if isinstance(value, Int8Matrix):
                    setattr(layer, name, _Slow(value.values, value.scales))
    return model


def _search(model: Transformer, beam_size: int = 3) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
    search = search_graph(model, beam_size, extra=8)
    return lambda source: tuple(x.numpy() for x in search(source))


def _logits(model: Transformer, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    run = tf.function(lambda s, t: model({"source": s, "target": t}), autograph=False)
    return run(tf.constant(source), tf.constant(target)).numpy()


@pytest.mark.nightly
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"norm": "pre", "positions": "learned", "share_embeddings": False, "d_k": 4, "d_v": 12},
        {"max_relative_position": 2, "attention_biases": True, "source_vector": True, "num_decoder_layers": 1},
        {"positions": "rotary", "norm": "deep", "num_layers": 2, "num_decoder_layers": 1},
    ],
    ids=str,
)
def test_a_model_makes_the_sums_that_it_should(changes: dict[str, Any]) -> None:
    fast, slow = _quantized(**changes), _quantized(slow=True, **changes)
    target = np.array([[4, 5, 6, EOS], [7, EOS, 0, 0], [21, 22, EOS, 0]], np.int32)
    wanted = _logits(slow, SOURCES, target)
    # A number at the edge between two steps may be rounded the other way, off by a 127th of its row's largest.
    np.testing.assert_allclose(_logits(fast, SOURCES, target), wanted, atol=0.01 * np.abs(wanted).max())
    assert np.median(np.abs(_logits(fast, SOURCES, target) - wanted)) < 1e-4 * np.abs(wanted).max()
    off = np.abs(_logits(_model(**changes), SOURCES, target) - wanted).max() / np.abs(wanted).max()
    assert 0.001 < off < 0.2  # the error that eight bits cause
    for beam_size in (1, 3):
        ids, scores = _search(slow, beam_size)(SOURCES)
        again, theirs = _search(fast, beam_size)(SOURCES)
        np.testing.assert_array_equal(again, ids)
        np.testing.assert_allclose(theirs, scores, rtol=2e-3)


@pytest.mark.commit
def test_no_sentence_depends_on_its_neighbours_nor_a_model_on_another() -> None:
    models = [_search(_quantized(seed)) for seed in (4, 5)]
    together = [search(SOURCES) for search in models]
    for _ in range(2):  # twice: what products keep must not leak to another model
        for search, (ids, scores) in zip(models, together, strict=True):
            for i, row in enumerate(SOURCES):
                alone, score = search(row[None, : np.count_nonzero(row)])
                np.testing.assert_array_equal(alone[0], ids[i][:, : alone.shape[2]])
                np.testing.assert_allclose(score[0], scores[i], rtol=1e-5)
    assert not np.array_equal(together[0][0], together[1][0])


def test_the_matrices_have_left_the_model() -> None:
    before = _model(positions="learned")
    model = _quantized(positions="learned")
    found = int8_matrices(model)
    assert int8_matrices(before) == {}
    left = {weight.path for weight in model.weights}
    gone = {weight.path: weight for weight in before.weights if weight.path not in left}
    assert len(gone) == len(found) == 2 * (4 + 2) + 2 * (8 + 2) + 1
    assert [path for path in left if "kernel" in path or "query" in path] == []
    for path, weight in gone.items():
        matrix, array = found[path.replace("/output", "/output_kernel")], np.asarray(weight)
        array = array if path.endswith("table") else array.T  # [O, I]
        unit = np.abs(array).max(1, keepdims=True) / 127
        assert np.abs(_dense(matrix).T - array).max() <= 0.5001 * unit.max()
        assert (np.abs(matrix.values.numpy()).max(1) == 127).all()
