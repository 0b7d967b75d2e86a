"""What is said before the first update: hours, memory, and a learning rate that still rises at the end."""

import json
import os
import re
from pathlib import Path

import pytest

from t2t_lite.cli import trainer
from t2t_lite.config import override
from t2t_lite.optimizers.choices import make_schedule
from t2t_lite.registry import hparams
from t2t_lite.training import estimates
from t2t_lite.training.describe import schedule_warning


def test_hours_are_those_of_the_run_where_it_has_trained(tmp_path: Path) -> None:
    """Two rates of 1e9 and 3e9: the median is 2e9 FLOP a second, so that 7.2e13 FLOP take 10 hours.

    The first steps were another training's, so the run's own FLOPs do not say what is left.
    """
    lines = [
        {"step": 10, "flops": 1e12, "flops_per_second": 1e9},
        {"step": 10, "dev_loss": 2.0},
        {"step": 20, "flops": 3e12, "flops_per_second": 3e9},
        {"flops": 9e13, "flops_per_second": 9e9},  # this line and those after it are damaged
        {"step": 30, "flops": 9e13, "flops_per_second": "9e9"},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines).encode() + b"[" * 100_000 + b"\n\xff\n"
    (tmp_path / "metrics.jsonl").write_bytes(text + b'{"step": 30, "fl')  # a crash cut it off
    found = estimates.expect_hours(lambda steps: 1.8e12 * steps, 40, "float32", tmp_path).text
    assert found.startswith("hours expected: 10 in all, 5.0 from step 20, without evaluations\n")
    assert found.endswith("based on the 2 GFLOP/s of this run's last lines in metrics.jsonl")


def test_hours_are_estimated_where_nothing_has_trained(tmp_path: Path) -> None:
    found = estimates.expect_hours(lambda steps: 1e11 * steps, 100, "float32", tmp_path).text
    match = re.match(r"hours expected: ([\d.e+-]+) to ([\d.e+-]+) on .*: an estimate\n", found)
    assert match is not None
    rate = re.search(r"matrix products at ([\d,]+) GFLOP/s, measured now", found)
    assert rate is not None
    speed = float(rate[1].replace(",", "")) * 1e9
    low, high = (1e13 / speed / share / 3600 for share in reversed(estimates.UTILISATION))
    assert (float(match[1]), float(match[2])) == pytest.approx((low, high), rel=0.15)  # as printed, rounded


def test_hours_on_a_gpu_are_those_that_one_has_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimates.tf.config, "list_physical_devices", lambda kind: [kind])
    monkeypatch.setattr(estimates, "device_flops_per_second", lambda strategy, dtype: 760e12)
    flops = 100_000 * 25_088 * 381.4e6  # `base`, whose update took 0.064 s with XLA and 0.422 s without
    for xla, hours in ((True, 100_000 * 0.064 / 3600), (False, 100_000 * 0.422 / 3600)):
        found = estimates.expect_hours(lambda steps: flops * steps / 100_000, 100_000, "bfloat16", xla=xla).text
        match = re.match(r"hours expected: ([\d.]+) to ([\d.]+) on one GPU of this machine", found)
        assert match is not None
        low, high = float(match[1]), float(match[2])
        assert 0.9 * hours < low < 1.1 * hours
        assert high == pytest.approx(2 * low, rel=0.1)
        assert ("XLA's compilations" in found) == xla


def test_the_limit_of_a_container_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimates, "on_gpus", lambda: False)
    (tmp_path / "memory.max").write_text("1073741824\n")
    monkeypatch.setattr(estimates, "_CGROUP_LIMITS", (str(tmp_path / "none"), str(tmp_path / "memory.max")))
    assert estimates.memory_there() == (2**30, "the limit of this container")
    (tmp_path / "memory.max").write_text("max\n")
    assert estimates.memory_there()[0] == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_describe_prints_recipe_epochs_hours_and_memory(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    flags = ["--describe", "--problem=toy_reverse", "--hparams_set=tiny", f"--output_dir={tmp_path}"]
    assert trainer.main([*flags, "--train_steps=90", "--hparams=batch_tokens=1000000,max_length=4096"]) == 0
    out = capsys.readouterr().out
    assert "\nRecipe (* differs from the default):\n" in out
    assert re.search(r"batch_tokens=1000000\*, .*max_length=4096\*", out)
    updates = re.search(r"^Batches: ([\d,]+) updates per epoch", out, re.MULTILINE)
    assert updates is not None
    epochs = 90 / int(updates[1])
    assert re.search(rf"^Training: 90 updates, {epochs:,.1f} epochs\n  hours expected: ", out, re.MULTILINE)
    assert re.search(r"^  there: [\d,.]+ [MG]iB, ", out, re.MULTILINE)
    assert trainer.main(["--describe", "--hparams_set=tiny", "--vocab_size=500", "--hparams=max_length=4000000"]) == 0
    out = capsys.readouterr().out
    assert (
        "Training: 1,400 updates; how many epochs that is depends on the data (give --problem and --output_dir)\n"
        in out
    )
    assert "\n  too little: raise --accumulate, or set remat=true, or take a smaller recipe" in out


def test_a_model_far_too_large_for_the_machine_is_refused_before_it_is_built(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    flags = ["--hparams_set=tiny", "--hparams=num_layers=200,d_model=4096,d_ff=16384"]
    for what in (["--describe", "--vocab_size=500"], ["--problem=toy_reverse", f"--output_dir={tmp_path}"]):
        assert trainer.main([*flags, *what]) == 2
        error = capsys.readouterr().err
        assert "model has at least 93,9" in error
        assert "weights and Adam's moments alone need 1,050 GiB of memory per device. There are" in error
        assert "Traceback" not in error


RISES = "the learning rate still rises at the last update, step {}."


@pytest.mark.parametrize("schedule", ["noam", "inverse_sqrt,learning_rate=0.01", "constant,learning_rate=0.01"])
def test_a_training_that_ends_while_the_learning_rate_rises(schedule: str) -> None:
    rate = make_schedule(override(hparams("base"), f"schedule={schedule},warmup_steps=1500"), 128)
    for steps in (2, 100, 1500):
        assert RISES.format(f"{steps:,}") in str(schedule_warning(rate, steps))
    for steps in (1, 1501, 9000):
        assert schedule_warning(rate, steps) is None


@pytest.mark.parametrize("schedule", ["halving,halve_after=5,halve_every=5", "plateau", "constant,warmup_steps=1"])
def test_a_learning_rate_that_never_rises(schedule: str) -> None:
    rate = make_schedule(override(hparams("base"), f"schedule={schedule},learning_rate=0.01"), 128)
    assert [schedule_warning(rate, steps) for steps in (1, 2, 7, 1000)] == [None] * 4
