"""A run and an export of a release open after every change: they resume, decode, average and load as in that release.

tests/golden/make_run.py makes them. The tolerances allow for another order of sums on another processor.
"""

import importlib
import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.data.store import open_store
from t2t_lite.errors import DataError
from t2t_lite.export.export_folder import read_card
from t2t_lite.export.exported import ExportedTranslator
from t2t_lite.runs.checkpoint import find
from t2t_lite.runs.open_run import open_run
from t2t_lite.runs.run_data import prepare_run_data
from t2t_lite.runs.run_dir import read_run
from t2t_lite.runs.run_log import read_starts
from t2t_lite.runs.scores_file import read_scores

pytestmark = pytest.mark.commit

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "run_0.1.0"
STEPS, MORE = 200, 3

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
        status = importlib.import_module(f"t2t_lite.cli.{name}").main([str(flag) for flag in flags])
        said = capsys.readouterr()
        assert status == 0, said.err
        return said.out

    return run_command


@pytest.fixture
def copy(golden: Path, tmp_path: Path) -> Path:
    """A copy of the run that a test may change."""
    return Path(shutil.copytree(golden / "run", tmp_path / "run"))


@pytest.mark.commit
def test_the_run_resumes_and_trains_as_it_did(command: Command, copy: Path, expected: dict[str, Any]) -> None:
    before = len((copy / "metrics.jsonl").read_text("utf-8").split("\n")[:-1])
    command("trainer", f"--output_dir={copy}", f"--train_steps={STEPS + MORE}", "--hparams=log_every=1")
    lines = [json.loads(line) for line in (copy / "metrics.jsonl").read_text("utf-8").split("\n")[before:-1]]
    losses = [line["loss"] for line in lines if "loss" in line]
    assert len(losses) == MORE
    np.testing.assert_allclose(losses, expected["resumed"], rtol=1e-5)
    assert open_run(copy, checkpoint="newest").step == STEPS + MORE


@pytest.mark.commit
def test_the_run_decodes_and_scores_as_it_did(
    command: Command, golden: Path, copy: Path, expected: dict[str, Any]
) -> None:
    flags = ["--json", "--nbest=2", f"--input={golden / 'corpus' / 'test.en'}"]
    found = [json.loads(line) for line in command("decoder", f"--output_dir={copy}", *flags).split("\n")[:-1]]
    assert len({line["outputs"][0]["text"] for line in found}) == 8
    for line, other in zip(found, expected["decoded"], strict=True):
        assert line["input"] == other["input"]
        assert [each["text"] for each in line["outputs"]] == [each["text"] for each in other["outputs"]]
        scores = [[each["score"] for each in both["outputs"]] for both in (line, other)]
        assert scores[0] == pytest.approx(scores[1], abs=1.01e-4)  # scores are printed with four decimals
    for kind, wanted in expected["evaluated"].items():
        out = json.loads(command("eval", f"--output_dir={copy}", "--split=dev", f"--checkpoint={kind}", "--json"))
        assert out["loss"] == pytest.approx(wanted["loss"], rel=5e-6)
        assert [[score["name"], score["value"]] for score in out["scores"]] == wanted["scores"]


@pytest.mark.nightly
def test_averaging_gives_the_same_weights(command: Command, copy: Path) -> None:
    def weights() -> dict[str, np.ndarray]:
        reader = tf.train.load_checkpoint(find(copy, "averaged"))
        keys = reader.get_variable_to_shape_map()
        return {key: reader.get_tensor(key) for key in keys if key.startswith("weights/")}

    before = weights()
    shutil.rmtree(copy / "averaged")
    command("avg_checkpoints", f"--output_dir={copy}")
    after = weights()
    assert before.keys() == after.keys()
    for key, value in before.items():
        np.testing.assert_allclose(after[key], value, rtol=1e-6, atol=1e-8, err_msg=key)


@pytest.mark.commit
def test_the_export_answers_as_it_did(golden: Path, expected: dict[str, Any]) -> None:
    wanted = expected["exported"]
    lines = (golden / "corpus" / "test.en").read_text().split("\n")[:-1]
    found = ExportedTranslator(golden / "export").translate(lines, nbest=4)
    assert [[hypothesis.text for hypothesis in row] for row in found] == wanted["outputs"]
    scores = [[hypothesis.score for hypothesis in row] for row in found]
    np.testing.assert_allclose(scores, wanted["scores"], rtol=0, atol=1e-5)


READERS: dict[str, Callable[[Path], object]] = {
    "run/hparams.json": lambda folder: read_run(folder / "run"),
    "run/problem.json": lambda folder: read_run(folder / "run"),
    "run/default_weights.json": lambda folder: find(folder / "run"),
    "run/run.json": lambda folder: read_starts(folder / "run"),
    "run/test.scores.json": lambda folder: read_scores(folder / "run", "test"),
    "run/dev.scores.json": lambda folder: read_scores(folder / "run", "dev"),
    "run/data/text2text/manifest.json": lambda folder: open_store(folder / "run" / "data" / "text2text"),
    "run/data/text2text/origin.json": lambda folder: prepare_run_data(read_run(folder / "run"), folder / "run"),
    "export/1/assets/model_card.json": lambda folder: read_card(folder / "export" / "1"),
}


@pytest.mark.commit
def test_each_file_has_a_format_and_another_is_refused(golden: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(golden, tmp_path / "copy"))
    assert {str(path.relative_to(folder)) for path in folder.rglob("*.json")} == READERS.keys()
    for name, read in READERS.items():
        path = folder / name
        text = path.read_text("utf-8")
        read(folder)
        for entry, what in (('"format": 7,', "the format number 7"), ("", "no format number")):
            path.write_text(text.replace('"format": 1,', entry), "utf-8")
            with pytest.raises(DataError) as caught:
                read(folder)
            assert f"{path} has {what}; this version of t2t-lite reads format 1." in str(caught.value)
        path.write_text(text, "utf-8")
