"""What an export is made of: a graph that the stock server can run, each weight once, files whole or not at all."""

import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.errors import DataError
from t2t_lite.export.export import export, new_version
from t2t_lite.export.export_folder import CARD_FILE, DEFAULT_SIGNATURES, find_version, versions
from t2t_lite.export.saved_model import ServedModel
from t2t_lite.export.warmup import BATCH_SIZE, WARMUP_FILE
from t2t_lite.text.vocabulary import Vocabulary
from tests.export.conftest import EXPORTED, Exported
from tests.serving.served_model import Version

pytestmark = pytest.mark.commit

# Ops of TensorFlow Text, which the stock server links; all others must be core TensorFlow's.
TEXT_OPS = {"SentencepieceOp", "SentencepieceTokenizeOp", "SentencepieceDetokenizeOp", "SentencepieceIdToStringOp"}
# Core ops that the server cannot run, or not in its default configuration.
FORBIDDEN = {"PyFunc", "PyFuncStateless", "EagerPyFunc", "XlaCallModule", "XlaLaunch"}
# Ops that only x86 processors have; only an export of int8 weights needs one.
X86_ONLY = {"_MklNativeFusedMatMul", "_QuantizedMatMul"}

B, K, L, H = None, EXPORTED.beam_size, EXPORTED.num_layers, EXPORTED.num_heads
S = EXPORTED.max_source_length
STRING, FLOAT, INT = tf.string, tf.float32, tf.int32
SIGNATURES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "serving_default": ({"inputs": (STRING, [B])}, {"outputs": (STRING, [B]), "scores": (FLOAT, [B])}),
    "nbest": ({"inputs": (STRING, [B])}, {"outputs": (STRING, [B, K]), "scores": (FLOAT, [B, K])}),
    "tokens": ({"ids": (INT, [B, S])}, {"ids": (INT, [B, S + EXPORTED.extra_length]), "scores": (FLOAT, [B])}),
    "score": (
        {"inputs": (STRING, [B]), "targets": (STRING, [B])},
        {"log_probs": (FLOAT, [B]), "tokens": (INT, [B])},
    ),
    "attention": (
        {"inputs": (STRING, [B])},
        {
            "outputs": (STRING, [B]),
            "source_pieces": (STRING, [B, None]),
            "target_pieces": (STRING, [B, None]),
            "encoder": (FLOAT, [B, L, H, None, None]),
            "decoder": (FLOAT, [B, L, H, None, None]),
            "memory": (FLOAT, [B, L, H, None, None]),
        },
    ),
    "prefix": (
        {"inputs": (STRING, [B]), "prefixes": (STRING, [B])},
        {"outputs": (STRING, [B, K]), "scores": (FLOAT, [B, K])},
    ),
    "alignments": (
        {"inputs": (STRING, [B])},
        {
            "outputs": (STRING, [B]),
            "scores": (FLOAT, [B]),
            "source_pieces": (STRING, [B, None]),
            "target_pieces": (STRING, [B, None]),
            "alignments": (FLOAT, [B, None, None]),
        },
    ),
    "word_scores": (
        {"inputs": (STRING, [B])},
        {
            "outputs": (STRING, [B]),
            "scores": (FLOAT, [B]),
            "ids": (INT, [B, None]),
            "target_pieces": (STRING, [B, None]),
            "log_probs": (FLOAT, [B, None]),
        },
    ),
}


def test_no_signature_that_is_exported_unasked_has_an_open_size_but_the_first(exported: Exported) -> None:
    """A server may cut and join answers of many requests along their first axis; other sizes would have to agree."""
    served = ServedModel(exported.translator)
    assert tuple(served.signatures) == DEFAULT_SIGNATURES
    for name, function in served.signatures.items():
        outputs = function.get_concrete_function().structured_outputs
        for spec in [*function.input_signature, *outputs.values()]:
            assert spec.shape.rank >= 1, name
            assert None not in spec.shape.as_list()[1:], (name, spec)


@pytest.fixture(scope="module")
def meta(exported: Exported) -> Any:
    from tensorflow.core.protobuf import saved_model_pb2

    saved = saved_model_pb2.SavedModel.FromString((exported.version / "saved_model.pb").read_bytes())
    assert len(saved.meta_graphs) == 1
    return saved.meta_graphs[0]


def _tensors(infos: Any) -> dict[str, Any]:
    return {name: (tf.as_dtype(i.dtype), tf.TensorShape(i.tensor_shape).as_list()) for name, i in infos.items()}


def test_the_signatures_are_as_documented(meta: Any) -> None:
    found = {
        name: (_tensors(definition.inputs), _tensors(definition.outputs))
        for name, definition in meta.signature_def.items()
        if name != "__saved_model_init_op"
    }
    assert found == SIGNATURES
    assert list(meta.meta_info_def.tags) == ["serve"]
    # No object that Keras would have to restore; TensorFlow imports Keras by itself.
    assert [n for n in meta.object_graph_def.nodes if "keras" in n.user_object.identifier] == []


def _nodes(meta: Any) -> Iterator[Any]:
    yield from meta.graph_def.node
    for function in meta.graph_def.library.function:  # bodies of loops as well
        yield from function.node_def


def _ops(meta: Any) -> set[str]:
    functions = {function.signature.name for function in meta.graph_def.library.function}
    return {node.op for node in _nodes(meta)} - functions


def test_no_op_is_one_that_the_server_cannot_run(meta: Any) -> None:
    ops = _ops(meta)
    assert {"TopKV2"} | TEXT_OPS <= ops  # the walk goes into the functions
    assert ops & {"While", "StatelessWhile"}
    assert ops & (FORBIDDEN | X86_ONLY) == set()


# Gets a folder, the export's ops and lines to translate; prints what it finds; does not use t2t_lite.
WITHOUT_US = """
import concurrent.futures, json, sys
import tensorflow as tf
from tensorflow.python.framework import op_def_registry
folder, ops, lines = json.load(sys.stdin)
unknown = [op for op in ops if op_def_registry.get(op) is None]
import tensorflow_text
model = tf.saved_model.load(folder)
translate = model.signatures["serving_default"]
together = translate(inputs=tf.constant(lines))
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    alone = list(pool.map(lambda line: translate(inputs=tf.constant([line])), lines * 2))
print(json.dumps({
    "not core": sorted(unknown),
    "ours": "t2t_lite" in sys.modules,
    "together": [text.decode() for text in together["outputs"].numpy()],
    "scores": together["scores"].numpy().tolist(),
    "alone": [answer["outputs"].numpy()[0].decode() for answer in alone],
}))
"""


def test_tensorflow_and_tensorflow_text_are_all_it_takes(exported: Exported, meta: Any, tmp_path: Path) -> None:
    lines = [*exported.lines, "", "\u3000", "日本 🌍"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_US],
        input=json.dumps([str(exported.version), sorted(_ops(meta)), lines]),
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    best = [h[0] for h in exported.translator.translate(lines)]
    assert set(found["not core"]) == TEXT_OPS
    assert not found["ours"]
    assert found["together"] == [h.text for h in best]
    np.testing.assert_allclose(found["scores"], [h.score for h in best], rtol=1e-4)
    assert found["alone"] == found["together"] * 2


def test_nothing_must_be_compiled_by_xla(meta: Any) -> None:
    holders = [*_nodes(meta), *meta.graph_def.library.function]
    assert [h for h in holders if "_XlaMustCompile" in h.attr and h.attr["_XlaMustCompile"].b] == []
    assert [h for h in holders if "jit_compile" in h.attr and h.attr["jit_compile"].b] == []


def test_each_weight_is_stored_once_and_little_else(exported: Exported) -> None:
    reader = tf.train.load_checkpoint(str(exported.version / "variables" / "variables"))
    shapes = reader.get_variable_to_shape_map()
    keys = {name for name in shapes if name.endswith("VARIABLE_VALUE")}
    weights = {w.path: w.value.numpy() for w in exported.translator.model.weights}
    stored = {re.sub(r"^_weights/|/\.ATTRIBUTES.*", "", name).replace(".S", "/"): name for name in keys}
    assert stored.keys() == weights.keys()
    for path, name in stored.items():
        np.testing.assert_array_equal(reader.get_tensor(name), weights[path])
    in_bytes = sum(value.nbytes for value in weights.values())
    vocabularies = len(exported.translator.source_vocabulary.data)
    vocabularies += len(exported.translator.target_vocabulary.data)
    sizes = {path: path.stat().st_size for path in exported.version.rglob("*") if path.is_file()}
    graph = sizes[exported.version / "saved_model.pb"]
    variables = sum(size for path, size in sizes.items() if path.parent.name == "variables")
    assert variables <= 1.02 * in_bytes + 12_000  # an object graph and the index
    assert graph - vocabularies <= GRAPH_BYTES + MORE_BYTES + GRAPH_BYTES_PER_LAYER * EXPORTED.num_layers
    assert sum(sizes.values()) - graph - variables - vocabularies < 20_000  # card, warm-up


GRAPH_BYTES, GRAPH_BYTES_PER_LAYER = 900_000, 560_000
MORE_BYTES = 650_000  # the signature `prefix` has a search of its own, and `word_scores` a pass over outputs


def test_the_folder_has_its_vocabularies_and_a_card(exported: Exported) -> None:
    names = {str(p.relative_to(exported.version)) for p in exported.version.rglob("*") if p.is_file()}
    assets = {f"assets/{name}" for name in (CARD_FILE, "vocabulary.source.model", "vocabulary.target.model")}
    variables = {"variables/variables.index", "variables/variables.data-00000-of-00001"}
    others = {"README.md", "saved_model.pb", "fingerprint.pb", f"assets.extra/{WARMUP_FILE}"}
    assert names == others | assets | variables
    loaded = Vocabulary.load(exported.version / "assets" / "vocabulary.source.model")
    assert loaded.checksum == exported.translator.source_vocabulary.checksum
    card = json.loads((exported.version / "assets" / CARD_FILE).read_text())
    assert card["hparams"]["beam_size"] == K
    assert card["signatures"]["nbest"] == {
        "inputs": {"inputs": "string [None]"},
        "outputs": {"outputs": f"string [None, {K}]", "scores": f"float32 [None, {K}]"},
    }
    assert card["signatures"].keys() == SIGNATURES.keys()


def _requests(exported: Exported) -> list[Any]:
    from tensorflow_serving.apis import prediction_log_pb2

    path = exported.version / "assets.extra" / WARMUP_FILE
    records = [record.numpy() for record in tf.data.TFRecordDataset(str(path))]
    logs = [prediction_log_pb2.PredictionLog.FromString(record) for record in records]
    for record, log in zip(records, logs, strict=True):
        assert log.SerializeToString(deterministic=True) == record  # as the official classes write it
    return [log.predict_log.request for log in logs]


@pytest.mark.nightly
def test_the_warm_up_covers_every_signature_and_runs(exported: Exported, version: Version) -> None:
    seen = []
    for request in _requests(exported):
        inputs = {name: tf.make_ndarray(proto) for name, proto in request.inputs.items()}
        answer = version.run(request.model_spec.signature_name, inputs, 60)
        rows = {len(value) for value in [*inputs.values(), *answer.values()]}
        assert len(rows) == 1
        longest = max(len(str(value)) for value in inputs.values())
        seen.append((request.model_spec.signature_name, *rows, longest))
    defaults = [what[1:] for what in seen if what[0] == "serving_default"]
    assert [rows for rows, _ in defaults] == [1, 1, BATCH_SIZE, BATCH_SIZE]
    assert defaults[0][1] * 3 < defaults[1][1]  # short and long
    assert {name for name, *_ in seen} == SIGNATURES.keys()


@pytest.mark.nightly
def test_the_warm_up_has_the_batch_size_asked_for(exported: Exported, tmp_path: Path) -> None:
    assert BATCH_SIZE <= 8
    for size in (1, 3):
        version = export(ServedModel(exported.translator, ("serving_default",)), tmp_path, {}, size)
        requests = _requests(exported._replace(version=version))
        assert {tf.make_ndarray(request.inputs["inputs"]).size for request in requests} == {1, size}


def test_the_next_version_has_the_next_number_and_touches_no_other(exported: Exported, tmp_path: Path) -> None:
    for name in ("9", "00000007", "tmp-99", "notes"):
        (tmp_path / name).mkdir()
    (tmp_path / "9" / "here").write_text("first")
    assert export(exported.served, tmp_path, {}) == tmp_path / "10"
    assert sorted(path.name for path in tmp_path.glob("[!.]*")) == ["00000007", "10", "9", "notes", "tmp-99"]
    assert (tmp_path / "9" / "here").read_text() == "first"
    assert list(versions(tmp_path)) == [7, 9, 10]
    assert find_version(tmp_path) == find_version(tmp_path / "10") == tmp_path / "10"
    with pytest.raises(DataError, match="notes holds no exported model: neither saved_model.pb nor a folder"):
        find_version(tmp_path / "notes")


def test_an_export_that_fails_leaves_nothing_behind(exported: Exported, tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))  # too small for the weights, as on a full disk
    try:
        with pytest.raises(DataError, match=r"could not be written to .*; make room, or give another --export_dir"):
            export(exported.served, tmp_path, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".version.lock", "1"]
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="Not a directory|File exists"):
        export(exported.served, tmp_path / "file", {})


@pytest.mark.parametrize(
    ("said", "error"),
    [("Could not create fingerprint in directory: d\nABORTED: d; Stale file handle", DataError), ("odd", ValueError)],
)
def test_what_cannot_be_read_back_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, error: type[Exception]
) -> None:
    def save(*_: object, **__: object) -> None:
        raise ValueError(said)

    monkeypatch.setattr(tf.saved_model, "save", save)
    with pytest.raises(error, match=r"written to .*d ABORTED: d; Stale file handle\. Nothing is left|^odd$"):
        export(SimpleNamespace(signatures={}), tmp_path, {})
    assert not list(tmp_path.glob("[!.]*"))


def test_what_a_killed_export_left_goes_with_the_next_one(tmp_path: Path) -> None:
    left = tmp_path / ".version.partial-99999"
    left.mkdir()
    (left / "saved_model.pb").write_text("half")
    version = new_version(tmp_path, lambda folder: (folder / "file").touch())
    assert [path.name for path in version.iterdir()] == ["file"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [".version.lock", "1"]
