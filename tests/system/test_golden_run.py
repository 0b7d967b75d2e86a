"""A run and an export of an earlier version: they continue, decode, average and load as in that version.

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

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "run_295e56e"
NAMES = ("post", "window")  # paper's norm order, shared embeddings; pre-norm, learned positions, restricted attention
STEPS, NEXT_STEPS = 300, 5
NO_CHECKSUMS = (
    "{0} and {1}: made before t2t-lite kept checksums; that settings and vocabularies are those of the training could "
    "not be verified."
)
NO_RUN_JSON = f"run.json does not say how the steps until {STEPS} were computed."

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
    """Runs `command("decoder", "--flag", ...)` in this process; returns what it prints."""

    def run_command(name: str, *flags: object) -> str:
        capsys.readouterr()
        status = importlib.import_module(f"t2t_lite.bin.{name}").main([str(flag) for flag in flags])
        said = capsys.readouterr()
        assert status == 0, said.err
        return said.out

    return run_command


@pytest.fixture
def copy(golden: Path, name: str, tmp_path: Path) -> Path:
    """A copy of the run that a test may change."""
    return Path(shutil.copytree(golden / name / "run", tmp_path / "run"))


def _weights(path: str) -> dict[str, np.ndarray]:
    reader = tf.train.load_checkpoint(path)
    return {key: reader.get_tensor(key) for key in reader.get_variable_to_shape_map() if key.startswith("weights/")}


@pytest.mark.parametrize("name", NAMES)
def test_the_run_continues_with_the_same_losses(
    command: Command, copy: Path, expected: dict[str, Any], name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "t2t_lite")
    wanted = expected[name]["next"]
    assert [row["step"] for row in wanted] == [301, 302, 303, 304, 305, 305]
    out = command("trainer", f"--output_dir={copy}", f"--train_steps={STEPS + NEXT_STEPS}")
    assert f"{copy} was made before t2t-lite kept checksums: that settings and vocabularies are those " in out
    assert NO_RUN_JSON in out
    assert f"\nGoing on from step {STEPS} of {STEPS + NEXT_STEPS}.\n" in out
    rows = [json.loads(line) for line in (copy / "metrics.jsonl").read_text().split("\n")[:-1]]
    found = [row for row in rows if row["step"] > STEPS]
    assert len(found) == len(wanted)
    for row, other in zip(found, wanted, strict=True):
        assert {key: row[key] for key in other} == pytest.approx(other, rel=5e-6), row["step"]
    # After this it is a run like any other.
    assert "sha256" in json.loads((copy / "hparams.json").read_text())
    assert "files" in json.loads((copy / "problem.json").read_text())
    assert json.loads((copy / "run.json").read_text())["starts"][-1]["first_step"] == STEPS + 1
    assert [message for message in caplog.messages if "It holds no record of its sources" in message]
    assert open_run(copy, checkpoint="newest").step == STEPS + NEXT_STEPS
    assert not [message for message in caplog.messages if "checksums" in message]


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


@pytest.mark.parametrize("name", NAMES)
def test_the_export_answers_as_it_did(golden: Path, expected: dict[str, Any], name: str) -> None:
    wanted = expected[name]["exported"]
    lines = (golden / "corpus" / "test.en").read_text().split("\n")[:-1]
    found = ExportedTranslator(golden / name / "export").translate(lines, nbest=4)
    assert [[hypothesis.text for hypothesis in row] for row in found] == wanted["outputs"]
    scores = [[hypothesis.score for hypothesis in row] for row in found]
    np.testing.assert_allclose(scores, wanted["scores"], rtol=0, atol=1e-5)
