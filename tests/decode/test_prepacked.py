"""Weights that change no more: products against NumPy's, a search with them against one without."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite import config
from t2t_lite.decode import prepacked
from t2t_lite.decode.beam_search import beam_search
from t2t_lite.decode.prepacked import PrepackedMatrix, prepack
from t2t_lite.layers.feed_forward import FeedForward
from t2t_lite.layers.matrix import matrices_of
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_hparams import TransformerHParams
from tests import reference

V, EOS = 30, 1
MODEL = TransformerHParams(num_layers=2, d_model=16, d_ff=48, num_heads=2)
SOURCES = np.array([[5, 9, 20, 7, EOS], [11, 3, EOS, 0, 0], [29, 28, 4, EOS, 0]], np.int32)


def _model(seed: int = 4, **changes: Any) -> Transformer:
    model = Transformer.from_hparams(config.replace(MODEL, **changes), V, V, True)
    reference.randomise(model, seed, 2.0)
    return model


def _prepacked(seed: int = 4, **changes: Any) -> Transformer:
    model = _model(seed, **changes)
    prepack(model)
    if not isinstance(model.softmax.table, PrepackedMatrix):
        pytest.skip(f"TensorFlow has no oneDNN here, or none that multiplies {model.compute_dtype}")
    return model


@pytest.mark.parametrize("axes", ["IO", "OI"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_products_for_all_numbers_of_rows(dtype: str, axes: str) -> None:
    _prepacked(precision=dtype)
    draw = np.random.default_rng(1)
    matrix = np.float32(draw.standard_normal((32, 47)))
    parts = [tf.Variable(part if axes == "IO" else part.T) for part in (matrix[:, :40], matrix[:, 40:])]
    first, second = (PrepackedMatrix([part], axes) for part in parts)
    both = first.concat([second])
    assert (first.shape, both.shape) == ((32, 40), (32, 47))

    @tf.function(input_signature=[tf.TensorSpec([None, 32], dtype)], autograph=False)
    def products(rows: Any) -> Any:
        return [kernel.product(dtype, steps=steps)(rows) for kernel in (first, both) for steps in (True, False)]

    for number in (0, 1, 300, 4, 65, 1):
        rows = np.float32(draw.standard_normal((number, 32))).astype(dtype)
        wanted = np.float64(rows) @ np.float64(matrix)
        for got in products(rows):
            assert got.dtype == dtype
            columns = wanted[:, : got.shape[1]]
            reference.assert_close(np.float32(got), columns, 1e-6 if dtype == "float32" else 2**-7)


def test_columns() -> None:
    table = np.float32(np.random.default_rng(2).standard_normal((9, 4)))
    np.testing.assert_array_equal(PrepackedMatrix([tf.Variable(table)], "OI").columns([[8, 0]]), table[[[8, 0]]])


def _search(model: Transformer, beam_size: int) -> Any:
    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)], autograph=False)
    def search(source: Any) -> Any:
        return beam_search(model, source, beam_size=beam_size, alpha=0.6, extra_length=8)

    return search


@pytest.mark.parametrize(
    "changes",
    [{}, {"precision": "bfloat16"}, {"norm": "pre", "positions": "learned"}, {"share_embeddings": False, "d_v": 12}],
    ids=str,
)
def test_a_search_finds_the_same(changes: dict[str, Any]) -> None:
    for beam_size in (1, 3):
        plain, packed = _search(_model(**changes), beam_size), _search(_prepacked(**changes), beam_size)
        other = _search(_prepacked(5, **changes), beam_size)  # what one keeps is none of the other's
        for sources in (SOURCES, SOURCES[:1], SOURCES):
            (ids, scores), (again, theirs), (different, _) = (search(sources) for search in (plain, packed, other))
            np.testing.assert_array_equal(again, ids)
            np.testing.assert_allclose(theirs, scores, rtol=1e-5 if "precision" not in changes else 2e-2)
            assert different.shape != ids.shape or not np.array_equal(different, ids)


def test_only_what_steps_multiply_with_is_kept_and_all_weights_stay() -> None:
    model, before = _prepacked(), _model()
    assert [w.path for w in model.weights] == [w.path for w in before.weights]
    assert not isinstance(model.encoder.blocks[0].self_attention.query, PrepackedMatrix)
    batch = {"source": SOURCES, "target": SOURCES}
    reference.assert_close(np.asarray(model(batch)), np.float64(before(batch)), 1e-5)


def test_where_there_is_a_gpu_nothing_is_prepacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: ["GPU:0"])
    model = _model()
    prepack(model)
    assert not isinstance(model.softmax.table, PrepackedMatrix)


@pytest.mark.parametrize("text", [None, "flags : fpu sse avx2 avx512fx\n"])
def test_bfloat16_is_for_processors_that_have_it(
    text: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if text:
        (tmp_path / "cpuinfo").write_text(text)
    monkeypatch.setattr(prepacked, "_CPUINFO", tmp_path / "cpuinfo")
    model = _model(precision="bfloat16")
    prepack(model)
    assert not isinstance(model.softmax.table, PrepackedMatrix)
    _prepacked()  # float32 is for all


class Own(Transformer):
    """A user's, who may take the table as an array."""


def test_models_and_layers_of_others_stay_as_they_are() -> None:
    model = Own.from_hparams(MODEL, V, V, True)
    prepack(model)
    assert not isinstance(model.softmax.table, PrepackedMatrix)

    class Gated(FeedForward):
        """Has uses of its own for the kernels."""

    assert [name for _, name, _ in matrices_of([FeedForward(8), Gated(8)])] == ["kernel_1", "kernel_2"]
