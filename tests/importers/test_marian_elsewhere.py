"""Models that Marian trained, outside of their run: over REST, in int8, with CTranslate2 and with JAX."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import ctranslate2
import numpy as np
import pytest

import t2t_lite
from t2t_lite.cli import exporter, importer
from t2t_lite.ids import UNK
from tests import commands
from tests.importers.marian_golden import GOLDEN, NAMES, lines, outputs, read
from tests.importers.odd_lines import odd_lines
from tests.serving.server import serve

_ROOT = Path(__file__).resolve().parents[2]
_POST_NORM = tuple(name for name in NAMES if name != "prenorm")
_OF_JAX = """
import sys
import keras
import numpy as np
from tests.importers.marian_golden import GOLDEN, errors, read

assert keras.backend.backend() == "jax"
for name in sys.argv[1:]:
    found = np.abs(errors(*read(GOLDEN / name), name))
    print(name, len(found), found.max())
"""


def _export(name: str, folder: Path, *flags: str) -> Path:
    run = folder / "run"
    assert importer.main([f"--checkpoint={GOLDEN / name}", f"--output_dir={run}"]) == 0
    assert exporter.main([f"--output_dir={run}", *flags]) == 0
    return run


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["toy", "labels", "bytes"])
def test_a_server_translates_as_the_run(tmp_path: Path, name: str) -> None:
    """t2t-lite-query asks over REST, as TensorFlow Serving is asked."""
    run = _export(name, tmp_path, "--signatures=nbest")
    texts = lines(name)
    if name != "labels":
        texts += [line for line in odd_lines(100, 5) if len(line) <= 100]
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes("".join(f"{text}\n" for text in texts).encode())
    with serve(run / "export", "opus") as server:
        flags = [f"--server={server.rest}", "--model=opus", f"--input={source}", f"--output={target}", "--json"]
        assert commands.call("query", *flags).returncode == 0
        if name == "labels":
            source.write_text("ro ri.\n")
            done = commands.call("query", *flags[:-2], f"--output={tmp_path / 'none'}")
            assert done.returncode == 2
            assert "A line does not begin with the label of a target language" in done.stderr
            assert ">>aaa<<, >>bbb<<" in done.stderr
            assert "Traceback" not in done.stderr
    found = [json.loads(row)["outputs"][0] for row in target.read_bytes().decode().removesuffix("\n").split("\n")]
    ours = [row[0] for row in t2t_lite.load(run).nbest(texts, 1)]
    differ = [
        text
        for text, row, best in zip(texts, found, ours, strict=True)
        if row["text"] != best.text or abs(row["score"] - best.score) > 1e-4
    ]
    assert differ == []


@pytest.mark.nightly
@pytest.mark.usefixtures("int8_machine")
@pytest.mark.parametrize(("name", "equal"), [("toy", 38), ("relu_tied", 11), ("gelu_untied", 11)])
def test_int8_agrees(tmp_path: Path, name: str, equal: int) -> None:
    """Outputs of matrices in eight bits, of the decoder and of an export: how many are those of float32, and scores."""
    run = _export(name, tmp_path, "--precision=int8", "--signatures=nbest")
    exact = [row[0] for row in t2t_lite.load(run).nbest(lines(name), 1)]
    for loaded in (t2t_lite.load(run / "export"), t2t_lite.load(run, precision="int8")):
        rows = loaded.nbest(lines(name), 1)
        pairs = [(row[0], best) for row, best in zip(rows, exact, strict=True)]
        gaps = [abs(row.score - best.score) for row, best in pairs if row.text == best.text]
        print(f"{name}: {len(gaps)} of {len(pairs)}, scores to {max(gaps):.4f}")
        assert len(gaps) >= equal
        assert max(gaps) <= 0.05


def _names(version: Path, side: str) -> list[str]:
    file = version / f"{side}_vocabulary.json"
    names: list[str] = json.loads((file if file.exists() else version / "shared_vocabulary.json").read_text("utf-8"))
    return names


@pytest.mark.nightly
@pytest.mark.parametrize("name", _POST_NORM)
def test_ctranslate2_computes_marians_log_probabilities(tmp_path: Path, name: str) -> None:
    """With our tables of positions in the export; of the .npz file CTranslate2 itself makes others."""
    version = _export(name, tmp_path, "--format=ctranslate2") / "export_ctranslate2" / "1"
    source, target = read(GOLDEN / name)[1]
    found = outputs(name)
    names = [_names(version, side) for side in ("source", "target")]

    def named(side: int, rows: Sequence[Sequence[int]]) -> list[list[str]]:
        return [[names[side][i] for i in row] for row in rows]

    texts = lines(name)
    engine = ctranslate2.Translator(str(version), device="cpu", intra_threads=1)
    scored = engine.score_batch(
        named(0, [source.encode(source.line(texts[output.line])) for output in found]),
        named(1, [[target.ids.get(piece, UNK) for piece in output.pieces] for output in found]),
    )
    for row, output in zip(scored, found, strict=True):  # an output that does not end has no </s> there
        theirs = row.log_probs[: len(output.log_probs)]
        np.testing.assert_allclose(theirs, output.log_probs, rtol=0, atol=2e-5)


@pytest.mark.nightly
@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="jax is not installed")
def test_jax_computes_marians_log_probabilities() -> None:
    environment = {**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    names = ("toy", "relu_tied", "gelu_untied", "prenorm")
    command = [sys.executable, "-c", _OF_JAX, *names]
    done = subprocess.run(command, cwd=_ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    rows = [row.split() for row in done.stdout.splitlines()]
    assert [name for name, _, _ in rows] == list(names)
    assert all(int(pieces) >= 48 and float(largest) <= 2e-5 for _, pieces, largest in rows), rows
