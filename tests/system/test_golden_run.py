"""A run and an export of an earlier version: they decode, average and load as in that version, and start new runs.

tests/golden/make_run.py made them with the code of commit 295e56e. The tolerances allow for another order of sums on
another processor: results with SSE alone, and without oneDNN, differed by 5e-7 at most.
"""

import importlib
import json
import logging
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.export.exported import ExportedTranslator
from t2t_lite.runs.checkpoint import find
from t2t_lite.runs.open_run import open_run
from tests.faults.material import contents

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "run_295e56e"
NAMES = ("post", "window")  # paper's norm order, shared embeddings; pre-norm, learned positions, restricted attention
STEPS = 300
NO_CHECKSUMS = (
    "{0} and {1}: made before t2t-lite kept checksums; that settings and vocabularies are those of the training could "
    "not be verified."
)

Command = Callable[..., str]


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("golden")
    with tarfile.open(GOLDEN / "runs.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    return json.loads((GOLDEN / "expected.json").read_text(encoding="utf-8"))


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs `command("decoder", "--flag", ...)` in this process; returns what it prints, or its error."""

    def run_command(name: str, *flags: object, status: int = 0) -> str:
        capsys.readouterr()
        found = importlib.import_module(f"t2t_lite.bin.{name}").main([str(flag) for flag in flags])
        said = capsys.readouterr()
        assert found == status, said.err
        return said.err if status else said.out

    return run_command


@pytest.fixture
def copy(golden: Path, name: str, tmp_path: Path) -> Path:
    """A copy of the run that a test may change."""
    return Path(shutil.copytree(golden / name / "run", tmp_path / "run"))


def _weights(path: str) -> dict[str, np.ndarray]:
    reader = tf.train.load_checkpoint(path)
    return {key: reader.get_tensor(key) for key in reader.get_variable_to_shape_map() if key.startswith("weights/")}


@pytest.mark.nightly
@pytest.mark.parametrize("name", NAMES)
def test_the_run_cannot_be_resumed_and_starts_another(
    command: Command, golden: Path, copy: Path, tmp_path: Path, name: str
) -> None:
    before = contents(copy)
    for flags in ([], ["--reset_optimizer"]):
        error = command("trainer", f"--output_dir={copy}", f"--train_steps={STEPS + 5}", *flags, status=1)
        assert error.startswith(
            f"error: The checkpoint {find(copy, 'newest')} is of an earlier version, whose dropout masks belonged to "
            "micro_batches instead of rows, so that its run cannot be resumed. It can be decoded, exported, and taken "
            "as the start of a new run with --warm_start_from."
        )
        assert contents(copy) == before
    assert "micro_batches" in json.loads((copy / "hparams.json").read_text())["hparams"]
    out = command(
        *("trainer", "--problem=text2text", f"--source_dir={golden / 'corpus'}", "--languages=en-de"),
        *(f"--vocabulary={copy}", f"--hparams_file={copy / 'hparams.json'}", "--train_steps=2"),
        *(f"--warm_start_from={copy}", f"--output_dir={tmp_path / 'new'}"),
    )
    assert f"Starting from the weights of {copy}, step {STEPS}." in out
    assert open_run(tmp_path / "new", checkpoint="newest").step == 2
    losses = [json.loads(line)["loss"] for line in (tmp_path / "new" / "metrics.jsonl").read_text().split("\n")[:2]]
    assert max(losses) < 1.5  # it was 0.4 to 0.8; of random weights it is about 4


@pytest.mark.commit("post")
@pytest.mark.parametrize("name", NAMES)
def test_the_run_decodes_and_scores_as_it_did(
    command: Command,
    golden: Path,
    copy: Path,
    expected: dict[str, Any],
    name: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "t2t_lite")
    flags = ["--json", "--nbest=2", f"--input={golden / 'corpus' / 'test.en'}"]
    found = [json.loads(line) for line in command("decoder", f"--output_dir={copy}", *flags).split("\n")[:-1]]
    assert [message for message in caplog.messages if "checksums" in message] == [
        NO_CHECKSUMS.format(copy, find(copy, "averaged"))
    ]
    wanted = expected[name]["decoded"]
    assert len({line["outputs"][0]["text"] for line in wanted}) == 8
    for line, other in zip(found, wanted, strict=True):
        assert line["input"] == other["input"]
        assert [each["text"] for each in line["outputs"]] == [each["text"] for each in other["outputs"]]
        scores = [[each["score"] for each in both["outputs"]] for both in (line, other)]
        assert scores[0] == pytest.approx(scores[1], abs=1.01e-4)  # scores are printed with four decimals

    evaluated = expected[name]["evaluated"]
    for kind in evaluated if name == "post" else ["averaged"]:
        out = json.loads(command("eval", f"--output_dir={copy}", "--split=dev", f"--checkpoint={kind}", "--json"))
        assert out["loss"] == pytest.approx(evaluated[kind]["loss"], rel=5e-6)
        assert [[score["name"], score["value"]] for score in out["scores"]] == evaluated[kind]["scores"]


@pytest.mark.parametrize("name", NAMES)
def test_averaging_gives_the_same_weights(command: Command, copy: Path, name: str) -> None:
    before = _weights(find(copy, "averaged"))
    shutil.rmtree(copy / "averaged")
    command("avg_checkpoints", f"--output_dir={copy}")
    after = _weights(find(copy, "averaged"))
    assert before.keys() == after.keys()
    for key, value in before.items():
        np.testing.assert_allclose(after[key], value, rtol=1e-6, atol=1e-8, err_msg=key)


@pytest.mark.commit("post")
@pytest.mark.parametrize("name", NAMES)
def test_the_export_answers_as_it_did(golden: Path, expected: dict[str, Any], name: str) -> None:
    wanted = expected[name]["exported"]
    lines = (golden / "corpus" / "test.en").read_text().split("\n")[:-1]
    found = ExportedTranslator(golden / name / "export").translate(lines, nbest=4)
    assert [[hypothesis.text for hypothesis in row] for row in found] == wanted["outputs"]
    scores = [[hypothesis.score for hypothesis in row] for row in found]
    np.testing.assert_allclose(scores, wanted["scores"], rtol=0, atol=1e-5)
