"""Weights prepared for a search: products against NumPy's, a search with them against the slow definition."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_lite import config, cpus
from t2t_lite.errors import UsageError
from t2t_lite.layers.feed_forward import FeedForward
from t2t_lite.layers.functions import current
from t2t_lite.layers.matmul import matmul
from t2t_lite.layers.matrix import Matrix, matrices_of
from t2t_lite.layers.mixture_of_experts import MixtureOfExperts
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.ops.outer_graph import OuterGraph
from t2t_lite.ops.packed import PackedMatrix
from t2t_lite.ops.prepacked import PrepackedMatrix, is_supported
from t2t_lite.ops.prepared import prepare_weights, read_weights_once
from tests import convs2s_reference, reference
from tests.families import SOURCE, VARIANTS, V, build
from tests.searches import search_graph


class MoeModel(keras.Model):
    """A model with nothing but a mixture of experts."""

    def __init__(self, mixture: MixtureOfExperts) -> None:
        super().__init__()
        self.mixture = mixture
        mixture.build((None, None, 8))
        reference.randomise(self, 1)


MODEL = TransformerHParams(num_layers=2, d_model=16, d_ff=256, num_heads=2)  # 256 columns are padded with some more


def _model() -> Transformer:
    model = Transformer.from_hparams(MODEL, V, V, True)
    reference.randomise(model, 4, 2.0)
    return model


def _need(dtype: str) -> None:
    if not is_supported(dtype):
        pytest.skip(f"TensorFlow has no oneDNN here, or none that multiplies {dtype}")


@pytest.mark.parametrize("kind", [PackedMatrix, PrepackedMatrix])
@pytest.mark.parametrize("axes", ["IO", "OI"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_products_for_all_numbers_of_rows(dtype: str, axes: str, kind: Any) -> None:
    if kind is PrepackedMatrix:
        _need(dtype)
    draw = np.random.default_rng(1)
    matrix = np.float32(draw.standard_normal((32, 256)))
    parts = [tf.Variable(part if axes == "IO" else part.T) for part in (matrix[:, :200], matrix[:, 200:], matrix)]
    bias = np.float32(draw.standard_normal(256))

    @tf.function(input_signature=[tf.TensorSpec([None, 32], dtype)], autograph=False)
    def products(rows: Any) -> Any:
        outer = OuterGraph()
        first, second, whole = (kind(part, axes, outer) for part in parts)
        return [*first.multiply(rows, second), *first.multiply(rows), matmul(rows, whole, bias)]

    for number in (0, 1, 300, 4, 65, 1):
        rows = np.float32(draw.standard_normal((number, 32))).astype(dtype)
        wanted = np.float64(rows) @ np.float64(matrix)
        pieces = wanted[:, :200], wanted[:, 200:], wanted[:, :200], wanted + bias
        for got, piece in zip(products(rows), pieces, strict=True):
            assert got.dtype == dtype
            reference.assert_close(np.float32(got), piece, 1e-6 if dtype == "float32" else 2**-6)


@pytest.mark.parametrize("kind", [PackedMatrix, PrepackedMatrix])
def test_vectors_of_outputs(kind: Any) -> None:
    table = np.float32(np.random.default_rng(2).standard_normal((9, 4)))
    np.testing.assert_array_equal(kind(tf.Variable(table), "OI", OuterGraph()).take([[8, 0]]), table[[[8, 0]]])


def test_what_a_loop_needs_is_made_outside_of_it_and_once() -> None:
    model = _model()
    x = np.float32(np.random.default_rng(3).standard_normal((3, 1, 16)))
    feed_forward = model.decoder.blocks[0].feed_forward

    @tf.function(autograph=False)
    def loop() -> Any:
        with prepare_weights(model):
            return tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, feed_forward(y)), (0, tf.constant(x)))[1]

    wanted = np.asarray(feed_forward(feed_forward(feed_forward(x))), np.float64)
    reference.assert_close(loop().numpy(), wanted, 1e-5)
    functions = loop.get_concrete_function().graph.as_graph_def().library.function
    (body,) = [function for function in functions if "body" in function.signature.name]
    assert not [node.name for node in body.node_def if node.op in ("Pad", "ReadVariableOp", "Cast")]


@pytest.mark.parametrize(("precision", "relative"), [("float32", 1e-5), ("mixed_bfloat16", 2**-6)])
def test_experts_are_cast_and_taken_apart_outside_of_a_loop_and_once(precision: str, relative: float) -> None:
    model = MoeModel(MixtureOfExperts(3, 2, 5, dtype=precision))
    x = tf.constant(np.random.default_rng(3).standard_normal((2, 4, 8)), model.mixture.compute_dtype)

    @tf.function(autograph=False)
    def loop() -> Any:
        with prepare_weights(model), read_weights_once(model):
            return tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, model.mixture(2 * y)), (0, x))[1]

    wanted = model.mixture(2 * model.mixture(2 * model.mixture(2 * x)))
    reference.assert_close(np.float32(loop()), np.float64(wanted), relative)
    graph = loop.get_concrete_function().graph.as_graph_def()
    (body,) = [function for function in graph.library.function if "body" in function.signature.name]
    given = {argument.name for argument in body.signature.input_arg}
    of_given = {node.op for node in body.node_def if {name.split(":")[0] for name in node.input} & given}
    assert "MatMul" in of_given
    assert not of_given & {"Cast", "Unpack", "ReadVariableOp"}
    assert [node.op for node in graph.node].count("Unpack") == 2


def test_matrices_stand_for_weights_in_one_thread_until_the_search_ends_or_fails() -> None:
    model = _model()

    def prepared() -> set[bool]:
        weights = (getattr(layer, name) for layer, name, _ in matrices_of(model._flatten_layers()))
        return {isinstance(current(weight), Matrix) for weight in weights}

    def fail() -> None:
        with prepare_weights(model), ThreadPoolExecutor(1) as other:
            assert (prepared(), other.submit(prepared).result()) == ({True}, {False})
            raise UsageError("wrong")

    with pytest.raises(UsageError, match="wrong"):
        fail()
    assert prepared() == {False}


def _build(name: str, precision: str, seed: int) -> Any:
    model = build(name.partition("/")[0], config.replace(VARIANTS[name], precision=precision))
    if seed:
        (convs2s_reference if name.startswith("convs2s") else reference).randomise(model, seed)
    return model


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "precision"),
    [
        *((name, "float32") for name in ("transformer/post", "transformer/pre_learned", "transformer/relative")),
        *(
            (name, "float32")
            for name in ("rnn/general", "rnn/gnmt_v2", "bytenet/tensor2tensor", "transformer_moe/plain")
        ),
        *((name, precision) for name in ("convs2s/sizes",) for precision in ("float32", "bfloat16")),
        ("transformer/post", "bfloat16"),
    ],
)
def test_a_search_with_prepacked_weights_finds_the_same(name: str, precision: str) -> None:
    _need(precision)
    for beam_size in (1, 3) if name == "transformer/post" else (3,):
        plain, packed, other = (  # models must not share what they keep
            search_graph(_build(name, precision, seed), beam_size, extra=8, prepack=prepack)
            for prepack, seed in ((False, 0), (True, 0), (True, 5))
        )
        for sources in (SOURCE, SOURCE[:1], SOURCE):
            (ids, scores), (again, theirs), (different, _) = (search(sources) for search in (plain, packed, other))
            np.testing.assert_array_equal(again, ids)
            np.testing.assert_allclose(theirs, scores, rtol=1e-5 if precision == "float32" else 2e-2)
            assert different.shape != ids.shape or not np.array_equal(different, ids)


def test_where_there_is_a_gpu_nothing_is_prepacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: ["GPU:0"])
    assert not is_supported("float32")


@pytest.mark.parametrize("text", [None, "flags : fpu sse avx2 avx512fx\n"])
def test_bfloat16_is_for_processors_that_have_it(
    text: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if text:
        (tmp_path / "cpuinfo").write_text(text)
    monkeypatch.setattr(cpus, "_CPUINFO", tmp_path / "cpuinfo")
    assert not is_supported("bfloat16")
    _need("float32")  # which every processor supports


def test_layers_of_others_stay_as_they_are() -> None:
    class Gated(FeedForward):
        """A user's layer, which may use the matrices in its own way."""

    assert [name for _, name, _ in matrices_of([FeedForward(8), Gated(8)])] == ["kernel_1", "kernel_2"]
