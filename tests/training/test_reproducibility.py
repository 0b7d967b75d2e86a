"""A run that goes on with more or fewer processors ends with the same bits, or says that it cannot."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_lite import registry
from t2t_lite.data.prepare import prepare
from t2t_lite.distributed.devices import Devices, make_strategy
from t2t_lite.distributed.workers import Workers
from t2t_lite.training.reproducibility import describe_computation, keep_last_bits, remarks
from t2t_lite.version import local_version
from tests import commands

pytestmark = pytest.mark.nightly

HPARAMS = (
    "num_layers=1,num_heads=2,dropout=0.1,train_steps=12,log_every=1,eval_every=12,average_checkpoints=2,eval_lines=8,"
    "beam_size=1,extra_length=2"
)
HERE = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
needs_two = pytest.mark.skipif(len(HERE) < 2, reason="needs two processors that a process can be bound to")
COMPUTED = {
    "processor": "AMD EPYC",
    "devices": 1,
    "workers": 1,
    "side_by_side": 2,
    "threads": 1,
    "xla": False,
    "remat": False,
    "tensorflow": "2.21.0",
}
AS_IF = (
    "The run computes as if there were {0}, as before, so that its weights stay the same to the last bit. This "
    "process may use {1}: TF_NUM_INTRAOP_THREADS={1} before the command uses them, as a rule faster, with other last "
    "bits."
)
MAY_DIFFER = "the last bits of the weights may differ from those of a run that was never stopped"


def _tensors(run: Path, step: int) -> dict[str, np.ndarray]:
    reader = tf.train.load_checkpoint(str(run / "checkpoints" / f"model-{step}"))
    keys = [key for key in reader.get_variable_to_shape_map() if key.startswith(("weights/", "adam_"))]
    return {key: reader.get_tensor(key) for key in keys}


def _differing(one: Path, other: Path, step: int = 12) -> int:
    ours, theirs = _tensors(one, step), _tensors(other, step)
    assert ours.keys() == theirs.keys()
    return sum(int((tensor != theirs[key]).sum()) for key, tensor in ours.items())


def _scores(run: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().split("\n")[:-1]]
    return [{key: line[key] for key in ("loss", "grad_norm", "dev_loss", "dev_bleu") if key in line} for line in lines]


def _train(folder: Path, name: str, processors: int, *flags: str) -> commands.BaseProcess:
    """Starts a training in folder/name that may use that many processors."""
    streams = {"out": folder / f"{name}.out", "err": folder / f"{name}.err"}
    flags = (f"--output_dir={folder / name}", *flags)
    return commands.start("t2t_lite.cli.trainer", *flags, **streams, processors=HERE[:processors])


def _copy_until(step: int, whole: Path, folder: Path) -> None:
    """Copies a run as if it had been killed when its checkpoint of `step`, the first one, was written."""
    shutil.copytree(whole, folder, ignore=shutil.ignore_patterns("best", "averaged", "default_weights.json", "test.*"))
    for path in (folder / "checkpoints").iterdir():
        if not path.name.startswith(f"model-{step}."):
            path.unlink()


def _end(*processes: commands.BaseProcess) -> None:
    for process in processes:
        process.join(300)
    assert [process.exitcode for process in processes] == [0] * len(processes)


def _recipe(folder: Path, hparams: str) -> list[str]:
    prepare(registry.problem("toy_reverse"), folder / "data", num_workers=1)
    return ["--problem=toy_reverse", "--hparams_set=tiny", f"--data_dir={folder / 'data'}", f"--hparams={hparams}"]


@needs_two
def test_a_run_goes_on_with_the_same_bits_on_more_and_on_fewer_processors(tmp_path: Path) -> None:
    recipe = _recipe(tmp_path, f"{HPARAMS},d_model=32,d_ff=64,batch_tokens=512,save_every=6")
    _end(*(_train(tmp_path, f"whole {number}", number, *recipe) for number in (1, 2)))
    for number in (1, 2):
        _copy_until(6, tmp_path / f"whole {number}", tmp_path / f"begun on {number}")
    _end(*(_train(tmp_path, f"begun on {number}", 3 - number) for number in (1, 2)))

    assert _differing(tmp_path / "whole 1", tmp_path / "whole 2") > 0  # otherwise the test shows nothing
    for number in (1, 2):
        whole, in_two = tmp_path / f"whole {number}", tmp_path / f"begun on {number}"
        assert _differing(whole, in_two) == 0
        assert _scores(in_two)[-7:] == _scores(whole)[-7:]
        assert (in_two / "test.hyp.txt").read_bytes() == (whole / "test.hyp.txt").read_bytes()
    on_two, on_one = ((tmp_path / f"begun on {begun}.out").read_text() for begun in (1, 2))
    assert on_one.startswith(f"{AS_IF.format('2 processors', 1)}\nResuming from step 6 of 12.\n")
    assert on_two.startswith(f"{AS_IF.format('1 processor', 2)}\nResuming from step 6 of 12.\n")
    assert "\ndevices:  CPU, 1 of 2 processors; " in on_two


@needs_two
def test_so_it_does_where_operations_have_several_threads(tmp_path: Path) -> None:
    """There are too few rows to give each processor some, and products are large enough to be cut among threads."""
    recipe = _recipe(tmp_path, f"{HPARAMS},d_model=256,d_ff=1024,batch_tokens=2048,max_length=1024,save_every=2")
    _end(_train(tmp_path, "whole", 2, *recipe, "--train_steps=4"))
    _copy_until(2, tmp_path / "whole", tmp_path / "in two")
    _end(_train(tmp_path, "in two", 1))
    assert _differing(tmp_path / "whole", tmp_path / "in two", step=4) == 0  # with one thread 2 of 3 numbers differ
    assert json.loads((tmp_path / "in two" / "run.json").read_text())["starts"][1]["computed"]["threads"] == 2


def _note(folder: Path, *starts: dict[str, Any]) -> Path:
    here: dict[str, Any] = {"version": local_version(), "keras": keras.__version__, "request": {}}
    here |= {"start": "2026-11-28T00:00:00Z", "end": None, "status": "killed"}
    (folder / "run.json").write_text(json.dumps({"format": 1, "starts": [{**here, **start} for start in starts]}))
    return folder


def test_flags_of_xla_are_recorded_with_xla_and_a_change_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--one")
    strategy = make_strategy(Devices(1))
    with_xla, without = (
        describe_computation(strategy, Workers(strategy), accumulate=1, xla=xla, remat=False) for xla in (True, False)
    )
    assert with_xla["xla_flags"] == "--one"
    assert "xla_flags" not in without
    run = _note(tmp_path, {"first_step": 1, "computed": with_xla})
    assert remarks(run, 11, {**with_xla, "xla_flags": "--two"}) == [
        f"From step 11 on {MAY_DIFFER}: XLA's flags --one -> --two."
    ]


def test_a_start_counts_that_made_the_newest_checkpoint(tmp_path: Path) -> None:
    """A later start that was killed before it saved anything does not count."""
    on_gpu = {**COMPUTED, "processor": "NVIDIA H200", "side_by_side": None, "threads": None, "xla": True}
    run = _note(tmp_path, {"first_step": 1, "computed": on_gpu}, {"first_step": 11, "computed": COMPUTED})
    assert remarks(run, 11, on_gpu) == []
    assert len(remarks(run, 12, on_gpu)) == 1


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ({}, {"devices": 2, "tensorflow": "2.22.0"}, "devices 1 -> 2, TensorFlow 2.21.0 -> 2.22.0."),
        ({"version": "0.1.0", "keras": "3.12.0"}, {}, f"Keras 3.12.0 -> {keras.__version__}, t2t-lite 0.1.0 -> "),
        ({}, {"threads": "unequal"}, "threads of an operation 1 -> unequal."),  # workers differ
    ],
)
def test_what_has_changed_is_said(tmp_path: Path, before: dict[str, Any], now: dict[str, Any], said: str) -> None:
    [remark] = remarks(_note(tmp_path, {"first_step": 1, "computed": COMPUTED, **before}), 11, {**COMPUTED, **now})
    assert remark.startswith(f"From step 11 on {MAY_DIFFER}: {said}")


@pytest.mark.parametrize("starts", [[], [{"first_step": 1, "computed": 3}]])
def test_where_it_is_not_known_that_is_said(tmp_path: Path, starts: list[dict[str, Any]]) -> None:
    [remark] = remarks(_note(tmp_path, *starts), 11, COMPUTED)
    assert remark.startswith("run.json does not say how the steps until 10 were computed: the last bits")


@pytest.mark.parametrize("numbers", [(0, 1), (1, 10**9), ("2", 1), (None, None)])
def test_numbers_that_cannot_be_are_not_kept(tmp_path: Path, numbers: tuple[Any, Any]) -> None:
    before = tf.config.threading.get_intra_op_parallelism_threads()
    computed = dict(zip(("side_by_side", "threads"), numbers, strict=True))
    keep_last_bits(_note(tmp_path, {"first_step": 0, "computed": computed}))
    assert tf.config.threading.get_intra_op_parallelism_threads() == before
