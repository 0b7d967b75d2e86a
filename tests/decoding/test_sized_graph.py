"""Graphs of batches, with and without XLA: sizes, results without padding, and what XLA cannot compile."""

import logging
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.decoding.beam_search import beam_search
from t2t_lite.decoding.sized_graph import SizedGraph
from t2t_lite.models.transformer import Transformer
from tests.decoding.test_beam_search import SOURCES, TINY, V

SIGNATURE = [tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None], tf.int32), tf.TensorSpec([], tf.int32)]


def _sums(ids: Any, factors: Any, plus: Any, jit: bool = False) -> tuple[Any, Any]:
    """Sums of rows times factors, and the number of columns that the graph sees."""
    assert ids.shape.is_fully_defined() == jit
    return tf.reduce_sum(ids, 1) * factors + plus, tf.zeros_like(factors) + tf.shape(ids)[1]


def _graph(jit: bool) -> SizedGraph:
    return SizedGraph(_sums, SIGNATURE, jit=jit, what="sums")


@pytest.mark.commit
@pytest.mark.parametrize(
    ("rows", "length", "tokens", "padded"),
    [
        (1, 1, 4096, (1, 16)),
        (1, 17, 4096, (1, 32)),
        (2, 16, 4096, (8, 16)),
        (9, 33, 4096, (64, 64)),
        (65, 20, 32768, (512, 32)),
        (65, 20, 4096, (128, 32)),  # as many as there may be
        (65, 20, 32, (65, 32)),  # more than there may be
        (600, 3, 32768, (600, 16)),
        (1, 700, 4096, (1, 1024)),
    ],
)
def test_batches_are_padded_to_few_sizes(rows: int, length: int, tokens: int, padded: tuple[int, int]) -> None:
    ids, factors = np.ones((rows, length), np.int32), np.arange(rows, dtype=np.int32)
    graph = _graph(jit=True)
    sums, columns = graph(ids, factors, 5, tokens=tokens)
    np.testing.assert_array_equal(sums, length * factors + 5)
    assert set(columns) == {padded[1]}
    assert list(graph._programs) == [(padded, padded[:1], ())]
    assert graph.count_padded_tokens(rows, length, tokens) == padded[0] * padded[1]
    sums, columns = _graph(jit=False)(ids, factors, 5, tokens=tokens)
    np.testing.assert_array_equal(sums, length * factors + 5)
    assert set(columns) == {length}


@pytest.mark.parametrize(("length", "most"), [(1, 512), (16, 512), (17, 256), (100, 64), (9000, 0)])
def test_the_most_rows_of_a_budget(length: int, most: int) -> None:
    assert _graph(jit=True).most_rows(8192, length) == most
    assert _graph(jit=False).most_rows(8192, length) == 8192 // length


def test_each_size_is_compiled_once_and_said(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "t2t_lite")
    graph = _graph(jit=True)
    for rows, length in [(3, 4), (8, 16), (1, 16), (4, 9), (1, 1)]:
        graph(np.ones((rows, length), np.int32), np.ones([rows], np.int32), 0, tokens=1024)
    said = [message.rpartition(", in ")[0] for message in caplog.messages]
    assert said == [f"xla: compiled sums, for batches of {size} pieces" for size in ("8 x 16", "1 x 16")]


def test_what_xla_cannot_compile_is_said_once_and_computed_without(caplog: pytest.LogCaptureFixture) -> None:
    def distinct(ids: Any, jit: bool = False) -> tuple[Any]:
        return (tf.unique(tf.reshape(tf.strings.to_number(tf.strings.as_string(ids), tf.int32), [-1]))[0],)

    graph = SizedGraph(distinct, SIGNATURE[:1], jit=True, what="the distinct numbers")
    for ids in ([[3, 5, 3, 5]], [[7, 7, 9]]):
        (found,) = graph(np.array(ids, np.int32), tokens=1024)
        assert set(found) <= set(ids[0])
    assert not graph.jit
    (message,) = caplog.messages
    assert message.startswith("warning: XLA cannot compile the distinct numbers, which takes longer without: ")
    assert len(message) > 90
    assert "\n" not in message


def test_memory_that_runs_out_is_no_reason_to_do_without_xla() -> None:
    def runs_out(ids: Any, jit: bool = False) -> Any:
        raise tf.errors.ResourceExhaustedError(None, None, "OOM")

    graph = SizedGraph(runs_out, SIGNATURE[:1], jit=True, what="nothing")
    with pytest.raises(tf.errors.ResourceExhaustedError):
        graph(np.ones((1, 1), np.int32), tokens=16)
    assert graph.jit


@pytest.mark.commit
def test_a_model_whose_state_grows_is_searched_without_xla(caplog: pytest.LogCaptureFixture) -> None:
    class Growing(Transformer):
        """As a model of one's own that has `renew`, and does not know of searches of fixed sizes."""

        xla_search = False

    def search(source: Any, jit: bool = False) -> Any:
        return beam_search(model, source, beam_size=2, alpha=0.6, extra_length=3, jit=jit)

    model = Growing.from_hparams(TINY, V, V, True)
    graph = SizedGraph(search, SIGNATURE[:1], jit=True, what="the search of a Growing")
    ids, _ = graph(SOURCES, tokens=1024)
    assert ids.shape == (len(SOURCES), 2, SOURCES.shape[1] + 3)
    (message,) = caplog.messages
    assert "the search of a Growing, which takes longer without: the state of its searches has no fixed size" in message
