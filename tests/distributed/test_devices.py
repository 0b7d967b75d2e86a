"""How many devices train: all that are there, or any number that is given, and always to the same result."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context

from t2t_lite.distributed import devices as module
from t2t_lite.distributed.devices import Devices, check_devices, make_strategy, number_of_devices
from t2t_lite.errors import UsageError
from tests import commands
from tests.faults.material import LARGE, SMALL, write_corpus

CLUSTER = json.dumps({"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 0}})


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stands in for a machine with three GPUs."""
    monkeypatch.setattr(module, "available_devices", lambda: ("GPU", 3))
    monkeypatch.delenv("TF_CONFIG", raising=False)


@pytest.mark.usefixtures("gpus")
@pytest.mark.parametrize(
    ("devices", "number"),
    [(Devices(), 3), (Devices(2), 2), (Devices(1, "mirrored"), 1), (Devices(strategy="one_device"), 1)],
)
def test_all_gpus_train_unless_a_number_is_given(
    devices: Devices, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_devices(devices)
    assert number_of_devices(devices) == number
    monkeypatch.setenv("TF_CONFIG", CLUSTER)
    assert number_of_devices(devices) == 2 * number


@pytest.mark.usefixtures("gpus")
@pytest.mark.parametrize(
    ("devices", "message"),
    [
        (Devices(4), "^--devices=4, but this machine has 3 GPUs.$"),
        (Devices(2, "one_device"), "^--strategy=one_device, but --devices=2"),
    ],
)
def test_devices_that_cannot_be_are_an_error(devices: Devices, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check_devices(devices)


def _train(module: str, run: Path, *flags: str) -> str:
    done = commands.run(module, *flags, f"--output_dir={run}")
    assert done.returncode == 0, done.stderr.decode("utf-8")
    return done.stdout.decode("utf-8")


@pytest.mark.nightly
def test_any_number_of_devices_trains_any_recipe_to_the_same_losses(tmp_path: Path) -> None:
    """Runs whole processes, with logical CPUs as devices, which no number of rows of these batches has as a factor."""
    corpus = write_corpus(tmp_path / "corpus", LARGE[:300], SMALL[:4])
    hparams = "num_layers=1,d_model=16,d_ff=16,num_heads=2,batch_tokens=256,train_steps=3,log_every=1,beam_size=1"
    flags = [*corpus, "--hparams_set=tiny", f"--hparams={hparams},dropout=0.3,eval_lines=1,extra_length=2"]
    found = {}
    for number, more in ((1, []), (2, []), (3, None), (5, ["--accumulate=2"])):
        run = tmp_path / f"run{number}"
        if more is None:  # by default all devices that are there
            out = _train("tests.distributed.three_devices", run, *flags)
            assert out.endswith("\n3 logical CPUs\n")
        else:
            out = _train("t2t_lite.cli.trainer", run, *flags, f"--devices={number}", *more)
        shares = f"{number} shares of " if number > 1 else ""
        parts = "2 parts (--accumulate=2)" if more else "one part (--accumulate=1)"
        assert re.search(rf"^devices:  .*; float32; a batch is {shares}{re.escape(parts)}$", out, re.MULTILINE)
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").split("\n")[:-1]]
        found[number] = [line["loss"] for line in lines if "loss" in line]
        computed = json.loads((run / "run.json").read_text("utf-8"))["starts"][-1]["computed"]
        assert (computed["devices"], computed["accumulate"]) == (number, 2 if more else 1)
    assert len(found[1]) == 3
    for losses in found.values():
        np.testing.assert_allclose(losses, found[1], rtol=1e-5)


def test_where_tensorflow_has_begun_cpus_stay_as_they_are_and_gpus_are_used_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    tf.constant(1)
    cpus = tf.config.list_physical_devices("CPU")
    monkeypatch.setattr(context.context(), "_physical_devices", cpus)
    with pytest.raises(UsageError, match=r"--devices=7: TensorFlow has begun .* Start a new process, or leave devices"):
        make_strategy(Devices(7))
    # Stands in for a machine with a GPU; the call that fails is TensorFlow's.
    gpu = tf.config.PhysicalDevice("/physical_device:GPU:0", "GPU")
    monkeypatch.setattr(context.context(), "_physical_devices", [*cpus, gpu])
    monkeypatch.setattr(context.context(), "_physical_device_to_index", {gpu: 0})
    with pytest.raises(RuntimeError, match="cannot be modified after being initialized"):
        tf.config.experimental.set_memory_growth(gpu, True)
    (device,) = make_strategy(Devices(1)).extended.worker_devices
    assert device.endswith("GPU:0")
