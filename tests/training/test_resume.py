"""A run that stops and goes on ends as if it had never stopped, bit for bit; tested with the real command.

On one device the run, with R-Drop and a moving average, ends at step 10, is moved and resumes to step 20. On two
devices it is killed in the middle, after its checkpoint.
"""

import dataclasses
import json
import re
import signal
import time
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite import registry
from t2t_lite.data.prepare import prepare
from t2t_lite.runs.checkpoint import find, variable_key
from t2t_lite.runs.default_weights import FILE
from t2t_lite.runs.open_run import open_run
from t2t_lite.version import local_version
from tests import commands
from tests.checkpoints import assert_same_bits, tensors

pytestmark = pytest.mark.commit

# Dropout is on. The evaluation at step 15 has a new graph, so it takes long enough for a kill during it.
HPARAMS = (
    "num_layers=1,d_model=32,d_ff=64,num_heads=2,dropout=0.1,batch_tokens=512,train_steps=20,"
    "log_every=1,eval_every=15,save_every=10,average_checkpoints=2,beam_size=1,extra_length=2"
)
OTHER_CODE = "0.1.0+g0000000"


@dataclasses.dataclass(frozen=True)
class Command:
    """t2t-lite-trainer in a process of its own, its output in files beside the run's folder."""

    folder: Path
    process: BaseProcess

    @classmethod
    def start(cls, folder: Path, *flags: str) -> "Command":
        streams = {"out": Path(f"{folder}.out"), "err": Path(f"{folder}.err")}
        return cls(folder, commands.start("t2t_lite.cli.trainer", f"--output_dir={folder}", *flags, **streams))

    def finish(self, status: int = 0) -> None:
        self.process.join(400)
        assert self.process.exitcode == status, self.errors()

    def errors(self) -> str:
        return Path(f"{self.folder}.err").read_text(encoding="utf-8")

    def kill_after(self, step: int) -> None:
        """Kills it (no farewell, no clean-up) when it has logged `step`."""
        deadline = time.monotonic() + 300
        while not any(line["step"] >= step for line in _metrics(self.folder)):
            assert self.process.is_alive(), self.errors()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        self.process.kill()
        self.finish(-signal.SIGKILL)


def _metrics(folder: Path) -> list[dict[str, Any]]:
    path = folder / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []


def _updates(folder: Path) -> list[dict[str, Any]]:
    """The training lines, without the fields that depend on a clock."""
    clock = ("tokens_per_second", "input_seconds", "flops_per_second", "utilisation", "trained_seconds", "goodput")
    return [{k: v for k, v in line.items() if k not in clock} for line in _metrics(folder) if "loss" in line]


@dataclasses.dataclass(frozen=True)
class Runs:
    """Folders of a run that never stopped and of one that did, and what a killed one had written when it died."""

    whole: Path
    in_two: Path
    killed_updates: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    killed_checkpoints: set[str] = dataclasses.field(default_factory=set)


@pytest.fixture(scope="module")
def flags(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    data = tmp_path_factory.mktemp("data")
    prepare(registry.problem("toy_reverse"), data, num_workers=1)
    return ["--problem=toy_reverse", "--hparams_set=tiny", f"--data_dir={data}", f"--hparams={HPARAMS}"]


@pytest.fixture(scope="module")
def moved(flags: list[str], tmp_path_factory: pytest.TempPathFactory) -> Runs:
    folder, flags = tmp_path_factory.mktemp("moved"), [*flags, "--hparams=r_drop=5,ema=0.9"]
    whole = Command.start(folder / "whole", *flags)
    Command.start(folder / "before", *flags, "--train_steps=10").finish()
    (folder / "before").rename(folder / "after")
    # The folder has all settings, except the higher number of steps.
    second = Command.start(folder / "after", "--train_steps=20")
    for command in (whole, second):
        command.finish()
    return Runs(whole.folder, second.folder)


@pytest.fixture(scope="module")
def killed(flags: list[str], tmp_path_factory: pytest.TempPathFactory) -> Runs:
    folder = tmp_path_factory.mktemp("killed")
    whole = Command.start(folder / "whole", *flags, "--devices=2")
    first = Command.start(folder / "in two", *flags, "--devices=2")
    first.kill_after(15)
    updates = _updates(first.folder)
    checkpoints = {path.stem for path in (first.folder / "checkpoints").glob("*.index")}
    record = first.folder / "run.json"
    record.write_text(record.read_text(encoding="utf-8").replace(local_version(), OTHER_CODE), encoding="utf-8")
    second = Command.start(first.folder, "--devices=2")
    for command in (whole, second):
        command.finish()
    return Runs(whole.folder, second.folder, updates, checkpoints)


@pytest.fixture(scope="module", params=["moved", "killed"])
def runs(request: pytest.FixtureRequest) -> Runs:
    made: Runs = request.getfixturevalue(request.param)
    return made


@pytest.mark.commit("killed")
def test_weights_and_moments_are_equal_bit_for_bit(runs: Runs) -> None:
    expected, found = (tensors(folder, 20) for folder in (runs.whole, runs.in_two))
    assert_same_bits(found, expected)
    assert len([key for key in expected if key.startswith("adam_")]) > 20
    # And they are not what they were when the run stopped.
    before = tensors(runs.in_two, 10)
    assert sum((before[key] != found[key]).any() for key in found) > len(found) / 2


@pytest.mark.nightly
def test_the_moving_average_is_in_checkpoints_scored_and_opened(moved: Runs) -> None:
    newest = tensors(moved.in_two, 20)
    averages = {key.removeprefix("ema/"): value for key, value in newest.items() if key.startswith("ema/")}
    for folder in (moved.whole, moved.in_two):
        written = tf.train.load_checkpoint(find(folder, "ema"))
        for key, value in averages.items():
            np.testing.assert_array_equal(written.get_tensor(f"weights/{key}"), value)
        assert sorted(json.loads((folder / FILE).read_text(encoding="utf-8"))["dev"]) == ["averaged", "best", "ema"]
    assert any((value != newest[f"weights/{key}"]).any() for key, value in averages.items())
    opened = open_run(moved.in_two, checkpoint="ema").model
    for weight in opened.trainable_weights:
        np.testing.assert_array_equal(weight.numpy(), averages[variable_key(weight.path)])


@pytest.mark.commit("killed")
def test_the_curves_are_equal_and_hold_each_step_once(runs: Runs) -> None:
    expected, found = _updates(runs.whole), _updates(runs.in_two)
    assert [line["step"] for line in found] == list(range(1, 21))
    assert found == expected
    evaluations = [
        {line["step"]: line for line in _metrics(folder) if "dev_loss" in line} for folder in (runs.whole, runs.in_two)
    ]
    assert list(evaluations[0]) == [15, 20]
    assert all(evaluations[1][step] == line for step, line in evaluations[0].items())


def test_the_best_and_the_default_weights_are_the_same_after_a_kill(killed: Runs) -> None:
    whole, in_two = killed.whole, killed.in_two  # the run that first ended at step 10 was evaluated there, too
    assert find(in_two, "best") == find(whole, "best").replace(str(whole), str(in_two))
    assert find(in_two) == find(whole).replace(str(whole), str(in_two))
    assert (in_two / "default_weights.json").read_text() == (whole / "default_weights.json").read_text()


def test_the_killed_run_was_past_its_checkpoint(killed: Runs) -> None:
    assert [line["step"] for line in killed.killed_updates] == list(range(1, 16))
    assert killed.killed_checkpoints == {"model-10"}
    # Steps 11 to 15 were made twice, with the same results.
    assert killed.killed_updates == _updates(killed.whole)[:15]


def test_another_recipe_is_refused_and_changes_nothing(killed: Runs) -> None:
    folder = killed.in_two
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    command = Command.start(folder, "--hparams=dropout=0.2,log_every=5")
    command.finish(2)
    assert command.errors().split("\n") == [
        f"error: {folder} holds a run that was started with other settings:",
        "  dropout: 0.1 -> 0.2",
        "Resume with the old settings, or give another --output_dir.",
        "",
    ]
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@pytest.mark.commit("killed")
def test_the_command_says_that_it_resumes_and_with_other_code(runs: Runs) -> None:
    said = Path(f"{runs.in_two}.out").read_text(encoding="utf-8")
    remark, after = said.split("Resuming from step 10 of 20.\nmodel:    ")
    shares = re.findall(
        r"^goodput:  (\d+)% of the .+ since the run began, with 2 starts, went into", after, re.MULTILINE
    )
    assert len(shares) == 2  # at the start and at the end
    assert all(int(share) < 100 for share in shares)
    assert [line["goodput"] for line in _metrics(runs.in_two) if "goodput" in line][-1] < 1
    other_code = (
        "From step 11 on the last bits of the weights may differ from those of a run that was never stopped: "
        f"t2t-lite {OTHER_CODE} -> {local_version()}.\n"
    )
    assert remark == (other_code if runs.killed_updates else "")
    assert json.loads((runs.in_two / "hparams.json").read_text(encoding="utf-8"))["hparams"]["train_steps"] == 20
