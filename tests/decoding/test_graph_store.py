"""Graphs that are traced once: the same results with the weights of today, and no graph of something else."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.decoding import graph_store
from t2t_lite.decoding.beam_search import beam_search
from t2t_lite.decoding.graph_store import GraphStore, open_store
from t2t_lite.decoding.sized_graph import SizedGraph
from t2t_lite.decoding.translate import SEARCH_SIGNATURE
from t2t_lite.distributed import tensorflow_loading
from t2t_lite.models.base import weights_by_path
from t2t_lite.models.transformer import Transformer
from tests import families

FLOATS = [tf.TensorSpec([None], tf.float32)]


def _model(family: str) -> Any:
    return families.build(family, next(iter(families.variants(family).values())))


def _search(model: Any, may_trace: bool) -> SizedGraph:
    def search(source: Any, early_stop: Any) -> Any:
        if not may_trace:
            pytest.fail("traced again")
        return beam_search(model, source, beam_size=3, alpha=0.6, extra_length=9, early_stop=early_stop)

    return SizedGraph(search, SEARCH_SIGNATURE, jit=False, what="a search")


def _store(folder: Path, model: Any, **what: Any) -> GraphStore:
    return GraphStore(folder, what, {path: weight.value for path, weight in weights_by_path(model).items()})


def _double(variable: tf.Variable) -> Any:
    return tf.function(lambda x: x * variable, input_signature=FLOATS, autograph=False)


@pytest.mark.commit("transformer")
@pytest.mark.parametrize("family", ["transformer", "rnn", "convs2s", "bytenet", "moe", "transformer_moe"])
def test_a_search_from_the_store_finds_what_it_would_if_it_were_traced(family: str, tmp_path: Path) -> None:
    first, other = _model(family), _model(family)
    for weight in other.weights:
        weight.assign(1.25 * weight)
    _search(first, may_trace=True).keep(_store(tmp_path, first))
    kept, traced = _search(other, may_trace=False), _search(other, may_trace=True)
    kept.keep(_store(tmp_path, other))
    for source in (families.SOURCE, families.SOURCE[:1]):
        for found, expected in zip(kept(source, True, tokens=99), traced(source, True, tokens=99), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_a_graph_of_something_else_is_not_found(tmp_path: Path) -> None:
    variable = tf.Variable(2.0)
    stores = [GraphStore(tmp_path, {"beam_size": size}, {"a": variable}) for size in (1, 4)]
    stores[0].keep(_double(variable), FLOATS)
    assert [store.file.exists() for store in stores] == [True, False]
    assert list(tmp_path.iterdir()) == [stores[0].file]


def test_a_graph_depends_on_this_packages_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = GraphStore(tmp_path, {}, {}).file
    code = tmp_path / "t2t_lite"
    (code / "decoding").mkdir(parents=True)
    monkeypatch.setattr(graph_store, "__file__", str(code / "decoding" / "graph_store.py"))
    (code / "model.py").write_text("1\n", encoding="utf-8")
    names = {before, GraphStore(tmp_path, {}, {}).file}
    (code / "model.py").write_text("12\n", encoding="utf-8")
    assert len(names | {GraphStore(tmp_path, {}, {}).file}) == 3


def test_a_graph_depends_on_tensorflows_switches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = GraphStore(tmp_path, {}, {}).file
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    assert GraphStore(tmp_path, {}, {}).file != before


def test_a_kept_graphs_first_call_names_its_folder_and_no_other_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TF_GRAPH_CACHING", "own")
    seen: list[str] = []
    variable = tf.Variable(2.0)
    store = GraphStore(tmp_path, {}, {"a": variable})
    kept = store.keep(_double(variable), FLOATS)
    function = kept._function

    def look(*arguments: Any) -> Any:
        seen.append(os.environ["TF_GRAPH_CACHING"])
        return function(*arguments)

    kept._function = look
    for _ in range(2):
        np.testing.assert_array_equal(kept(tf.constant([3.0])), [6.0])
    assert seen == [str(store.file.with_suffix("")), "own"]


def test_a_damaged_graph_is_traced_and_written_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    variable = tf.Variable(2.0)
    store = GraphStore(tmp_path, {}, {"a": variable})
    store.keep(_double(variable), FLOATS)
    whole = store.file.read_bytes()
    store.file.write_bytes(whole[:-1])
    function = _double(variable)
    with caplog.at_level(logging.WARNING, "t2t_lite"):
        found = store.keep(function, FLOATS)
    assert f"the graph {store.file} is damaged. It is traced and written again." in caplog.text
    caplog.clear()
    store.keep(_double(variable), FLOATS)
    assert not caplog.text
    np.testing.assert_array_equal(found(tf.constant([3.0])), [6.0])


def test_a_graph_that_reads_another_variable_is_not_kept(tmp_path: Path) -> None:
    GraphStore(tmp_path, {}, {"a": tf.Variable(2.0)}).keep(_double(tf.Variable(2.0)), FLOATS)
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    variable, function = tf.Variable(2.0), _double(tf.Variable(2.0))
    assert GraphStore(tmp_path / "file" / "graphs", {}, {"a": variable}).keep(function, FLOATS) is function


def test_the_oldest_graphs_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_store, "_MOST", 2)
    variable = tf.Variable(2.0)
    for number in range(4):
        GraphStore(tmp_path, {"number": number}, {"a": variable}).keep(_double(variable), FLOATS)
    assert len(list(tmp_path.glob("*.pb"))) == 2


def test_a_users_own_model_is_traced_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    class Own:
        pass

    assert open_store({}, {}, Transformer) is None  # in a program
    monkeypatch.setattr(tensorflow_loading, "in_command", lambda: True)
    assert open_store({}, {}, Transformer) is not None
    assert open_store({}, {}, Transformer, Own) is None
