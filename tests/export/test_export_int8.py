"""An exported model of int8 weights: what is stored, and what it answers in a session, as the server runs it."""

import concurrent.futures
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite import config
from t2t_lite.decoding.translate import Translator
from t2t_lite.export.export import export
from t2t_lite.export.saved_model import ServedModel
from t2t_lite.models.transformer import Transformer
from t2t_lite.ops.int8 import expand, int8_matrices, quantize
from tests.export.conftest import EXPORTED, Exported, run
from tests.serving.served_model import Version

pytestmark = [pytest.mark.commit, pytest.mark.usefixtures("int8_machine")]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def int8(exported: Exported, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """The same weights in eight bits."""
    source, target = exported.served.vocabularies
    model = Transformer.from_hparams(EXPORTED, source.size, target.size, False)
    for weight, other in zip(model.weights, exported.translator.model.weights, strict=True):
        weight.assign(other.value)
    quantize(model)
    translator = Translator(model, source, target, EXPORTED)
    served = ServedModel(translator, ("serving_default", "score"))
    card = {"hparams": config.to_dict(EXPORTED) | {"precision": "int8"}}
    version = export(served, tmp_path_factory.mktemp("int8"), card)
    return Exported(translator, served, version, exported.lines)


@pytest.mark.nightly
def test_matrices_are_stored_in_a_quarter_of_the_bytes(int8: Exported, exported: Exported) -> None:
    reader = tf.train.load_checkpoint(str(int8.version / "variables" / "variables"))
    shapes = {n: s for n, s in reader.get_variable_to_shape_map().items() if n.endswith("VARIABLE_VALUE")}
    types = reader.get_variable_to_dtype_map()
    kernels = int8_matrices(int8.translator.model)
    assert {len(shape) for name, shape in shapes.items() if types[name] == tf.float32} == {1}
    stored = [reader.get_tensor(name) for name in shapes if types[name] == tf.int8]
    assert sum(array.size for array in stored) == sum(np.prod(kernel.shape) for kernel in kernels.values())
    vectors = len(int8.translator.model.weights) + len(kernels)
    assert len(shapes) == len(stored) + vectors
    files = [of.version / "variables" / "variables.data-00000-of-00001" for of in (int8, exported)]
    eight, plain = (path.stat().st_size for path in files)
    assert eight < 0.5 * plain  # not a quarter: so narrow a model has many vectors


@pytest.mark.nightly
def test_it_answers_as_the_translator_does_many_requests_at_once(int8: Exported, exported: Exported) -> None:
    version = Version(int8.version)
    lines = int8.lines
    with concurrent.futures.ThreadPoolExecutor(6) as pool:  # also the very first requests
        alone = list(pool.map(lambda line: run(version, "serving_default", [line]), lines * 2))
    wanted = [h[0] for h in int8.translator.translate(lines)] * 2
    assert [answer["outputs"][0].decode() for answer in alone] == [h.text for h in wanted]
    np.testing.assert_allclose([answer["scores"][0] for answer in alone], [h.score for h in wanted], rtol=1e-4)
    together = run(version, "serving_default", ["", *lines])
    assert [text.decode() for text in together["outputs"]] == ["", *(h.text for h in wanted[: len(lines)])]
    outputs = [h.text for h in wanted[: len(lines)]]
    scores = [run(of, "score", lines, outputs)["log_probs"] for of in (version, Version(exported.version))]
    np.testing.assert_allclose(scores[0], scores[1], rtol=0.1)
    assert np.abs(scores[0] - scores[1]).min() > 0  # it is another model


OPEN = """
import sys
import numpy as np
from t2t_lite.export.exported import ExportedTranslator
translator = ExportedTranslator(sys.argv[1])
lines = open(sys.argv[2], encoding="utf-8").read().splitlines()
for row in translator.translate(lines):
    print(repr(row[0].score), row[0].text)
"""


@pytest.mark.nightly
def test_a_processor_without_such_products_computes_with_float32(int8: Exported, tmp_path: Path) -> None:
    environment: dict[str, Any] = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"}  # as if the processor had nothing newer
    (tmp_path / "lines").write_text("\n".join(int8.lines), encoding="utf-8")
    command = [sys.executable, "-c", OPEN, str(int8.version), str(tmp_path / "lines")]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    found = [line.partition(" ") for line in done.stdout.splitlines()]
    source, target = int8.served.vocabularies
    model = int8.translator.model
    integers = {path: kernel.values for path, kernel in int8_matrices(model).items()}
    try:
        expand(int8_matrices(model).values())
        wanted = [row[0] for row in Translator(model, source, target, EXPORTED).translate(int8.lines)]
    finally:
        for path, kernel in int8_matrices(model).items():
            kernel.values = integers[path]
    assert [text for _, _, text in found] == [one.text for one in wanted]
    np.testing.assert_allclose([float(score) for score, _, _ in found], [one.score for one in wanted], rtol=1e-4)
