"""t2t-lite-compare --train_minutes: how speeds are measured, kept, and become updates."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from t2t_lite.cli import compare
from t2t_lite.compare import runs as compare_runs
from t2t_lite.compare import speed as compare_speed
from t2t_lite.data.plan import Plan
from t2t_lite.errors import TrainingError, UsageError
from t2t_lite.runs.data_request import DataRequest
from t2t_lite.runs.start_request import StartRequest

SETS = "--sets=tiny,tiny+dropout=0.2,tiny*2"
FLAGS = [
    *("--problem=toy_reverse", "--problem_options=train_size=200"),
    "--hparams=num_layers=1,d_model=16,d_ff=16,num_heads=2,eval_every=50,beam_size=1,extra_length=1",
]


@pytest.mark.nightly
def test_a_training_makes_the_updates_that_fit(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare_speed, "_SECONDS", 0.3)

    def made(minutes: float) -> tuple[dict[str, Any], str]:
        assert compare.main([*FLAGS, "--sets=tiny", f"--output_dir={tmp_path}", f"--train_minutes={minutes}"]) == 0
        [row] = json.loads((tmp_path / "table.json").read_text("utf-8"))
        assert row["budget"]["train_minutes"] == minutes
        assert row["train_steps"] == int(60 * minutes * row["budget"]["updates_per_second"]) > 0
        reports = (tmp_path / "tiny-1" / "metrics.jsonl").read_text("utf-8").splitlines()
        assert json.loads(reports[-1])["step"] == row["train_steps"]
        return row, capfd.readouterr().out

    first, said = made(0.03)
    assert said.count("tiny: its speed is being measured") == 1
    assert "\nbudget: 0.03 minutes of each training; updates/s measured for that: tiny " in said
    assert not list(tmp_path.glob(".speed-*"))
    longer, said = made(0.06)  # the run goes on, and the speed is kept
    assert "being measured" not in said
    assert longer["budget"]["updates_per_second"] == first["budget"]["updates_per_second"]
    assert f"Resuming from step {first['train_steps']:,} of {longer['train_steps']:,}." in said


def _planned(folder: Path, *flags: str) -> compare_runs.Runs:
    """As a new process of the command, up to its first training."""
    args = compare.make_parser().parse([*FLAGS, SETS, f"--output_dir={folder}", *flags])
    request = compare.compare_request(args)
    runs = compare_runs.Runs(request)
    runs.plan(request.entries)
    return runs


@pytest.mark.commit
def test_a_speed_is_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by other seeds, nor again after an interruption or with another budget; but for other recipes."""
    calls: list[str] = []
    speeds = {"tiny": 1e9, "tiny+dropout=0.2": 5e8}

    def measure(request: StartRequest, plan: Plan, folder: Path, variant: str) -> float:
        assert request.recipe.hparams_set == "tiny"
        calls.append(variant)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return speeds[variant]

    monkeypatch.setattr(compare_speed, "measure", measure)
    with pytest.raises(KeyboardInterrupt):
        _planned(tmp_path, "--train_minutes=2")
    speeds["tiny"] = 1.0  # would now be refused
    runs = _planned(tmp_path, "--train_minutes=2", "--seeds=3")
    assert calls == ["tiny", "tiny+dropout=0.2", "tiny+dropout=0.2"]
    fast, slow = (runs._plans[variant] for variant in speeds)
    assert fast.changes["train_steps"] == fast.steps
    assert fast.steps == int(120 * fast.budget["updates_per_second"])
    assert fast.flops == pytest.approx(120e9, rel=0.01)  # at 1e9 FLOP/s
    assert slow.flops == pytest.approx(60e9, rel=0.01)
    half = _planned(tmp_path, "--train_minutes=1", "--hparams=save_every=10")._plans["tiny"]  # updates are the same
    assert half.steps == fast.steps // 2
    with pytest.raises(
        UsageError, match=r"--train_minutes=1e-07 is not enough for an update of tiny, which takes [\d.e-]+ minutes on"
    ):
        _planned(tmp_path, "--train_minutes=1e-7")
    assert len(calls) == 3
    speeds["tiny"] = 2e9
    other = _planned(tmp_path, "--train_minutes=2", "--hparams=batch_tokens=300")._plans["tiny"]
    assert calls[3:] == ["tiny", "tiny+dropout=0.2"]
    assert other.flops == pytest.approx(240e9, rel=0.01)


class _Plan:
    """Of batches whose lengths are 8, 8, 16, 8, 16, ..."""

    def batch(self, step: int) -> SimpleNamespace:
        length = 16 if step > 1 and step % 2 else 8
        return SimpleNamespace(rows=np.zeros((4, 1)), source_length=length, target_length=length)


def _lines(*updates: tuple[int, float, float]) -> list[dict[str, float]]:
    """Lines up to these steps, of so many FLOPs in so many seconds."""
    lines, flops = [], 0.0
    for step, more, seconds in updates:
        flops += more
        lines.append({"step": step, "flops": flops, "flops_per_second": more / seconds})
    return lines


@pytest.mark.parametrize(
    ("updates", "flops", "seconds"),
    [
        ([(1, 10, 9.0), (2, 10, 1.0), (3, 30, 9.0), (4, 10, 2.0), (5, 30, 1.5)], 50, 4.5),
        ([(2, 20, 9.0), (4, 40, 9.0), (6, 40, 2.0), (8, 44, 2.0)], 84, 4.0),  # two updates a line
        ([(1, 10, 9.0)], 0, 0),
    ],
)
def test_first_updates_of_a_shape_do_not_count(
    updates: list[tuple[int, float, float]], flops: float, seconds: float
) -> None:
    speed, lines = compare_speed.Speed(_Plan()), [*_lines(*updates)]  # type: ignore[arg-type]
    lines.insert(1, {"step": 1, "skipped_batches": 1})
    for end in (1, 2, len(lines), len(lines)):  # the file grows
        speed.add(lines[:end])
    assert (speed.flops, speed.seconds) == pytest.approx((flops, seconds))


@pytest.mark.nightly
def test_a_training_that_fails_shows_why_and_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".speed-old" / "run").mkdir(parents=True)  # of a command that was killed
    (tmp_path / "speed-1").mkdir()  # the run of a set that is called speed
    request = StartRequest(output_dir=None, data=DataRequest(problem="toy_revers"))
    with pytest.raises(TrainingError, match=r"tiny that was to show its speed has ended with status 2. (.|\n)*toy_rev"):
        compare_speed.measure(request, _Plan(), tmp_path, "tiny")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == [tmp_path / "speed-1"]


@pytest.mark.nightly
def test_it_ends_with_the_command_however_that_ends() -> None:
    """Its updates would go on for days."""
    command = [
        sys.executable,
        "-c",
        "from t2t_lite.cli import compare_training as c; c.end_with_the_command(save=False)",
    ]
    process = subprocess.Popen(command, stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(60) == 1
