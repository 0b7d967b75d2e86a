"""How many devices train: as many as can share a recipe's micro-batches, unless a number is given."""

import json
import os
from pathlib import Path

import pytest
import tensorflow as tf
from tensorflow.python.eager import context

from t2t_lite.distributed import devices as module
from t2t_lite.distributed.devices import Devices, choose_devices, largest_divisor, make_strategy
from t2t_lite.errors import UsageError
from tests import commands
from tests.faults.material import LARGE, SMALL, write_corpus

CLUSTER = json.dumps({"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 0}})


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stands in for a machine with three GPUs."""
    monkeypatch.setattr(module, "available_devices", lambda: ("GPU", 3))
    monkeypatch.delenv("TF_CONFIG", raising=False)


def test_the_largest_number_of_devices_that_divides_the_micro_batches() -> None:
    assert [largest_divisor(8, n) for n in range(1, 10)] == [1, 2, 2, 4, 4, 4, 4, 8, 8]
    assert [largest_divisor(1, n) for n in (1, 2, 8)] == [1, 1, 1]
    assert [largest_divisor(6, n) for n in (2, 4, 5)] == [2, 3, 3]
    assert [largest_divisor(8, n, workers=2) for n in (1, 3, 8)] == [1, 2, 4]
    assert largest_divisor(8, 4, workers=3) == 0


@pytest.mark.usefixtures("gpus")
@pytest.mark.parametrize(
    ("devices", "micro_batches", "number", "sentence"),
    [
        (Devices(), 6, 3, ""),
        (Devices(), 2, 2, "Using 2 of 3 GPUs, as micro_batches=2 cannot be shared equally among 3. All are used with "
         "--hparams=micro_batches=3 in a new run (its batches are cut finer)."),
        (Devices(), 8, 2, "Using 2 of 3 GPUs, as micro_batches=8 cannot be shared equally among 3. All are used with "
         "--fill_micro_batches, with some idle in the last turn, or --hparams=micro_batches=9 in a new run (its "
         "batches are cut finer)."),
        (Devices(), 1, 1, "Using 1 of 3 GPUs, as micro_batches=1 cannot be shared equally among 3. All are used with "
         "--hparams=micro_batches=3 in a new run (its batches are cut finer)."),
        (Devices(fill=True), 8, 3, ""),
        (Devices(2), 8, 2, ""),
        (Devices(strategy="one_device"), 8, 1, ""),
    ],
)  # fmt: skip
def test_without_a_number_as_many_gpus_as_can_share(
    devices: Devices, micro_batches: int, number: int, sentence: str
) -> None:
    chosen, unused = choose_devices(devices, micro_batches)
    assert chosen == Devices(number, devices.strategy, devices.fill)
    assert unused == sentence


@pytest.mark.usefixtures("gpus")
@pytest.mark.parametrize(
    ("devices", "message"),
    [
        (Devices(3), "^3 devices cannot share micro_batches=8 equally. Use --devices=1 or 2 or 4 or 8, or"),
        (Devices(4), "^--devices=4, but this machine has 3 GPUs.$"),
        (Devices(2, "one_device"), "^--strategy=one_device, but --devices=2"),
    ],
)
def test_a_number_that_cannot_be_is_an_error(devices: Devices, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        choose_devices(devices, 8)


@pytest.mark.usefixtures("gpus")
def test_workers_take_what_all_of_them_can_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", CLUSTER)
    chosen, unused = choose_devices(Devices(), 8)
    assert chosen.number == 2
    assert unused.startswith("Using 2 of 3 GPUs in each worker, as micro_batches=8 cannot be shared equally among 6. ")
    with pytest.raises(UsageError, match="^6 devices cannot share micro_batches=7 equally. No --devices divides it"):
        choose_devices(Devices(), 7)


def test_a_command_trains_on_as_many_devices_as_can_share(tmp_path: Path) -> None:
    """Runs whole processes; logical CPUs stand in for three GPUs (tests/distributed/three_devices.py)."""
    corpus = write_corpus(tmp_path / "corpus", LARGE[:300], SMALL[:4])
    hparams = "num_layers=1,d_model=16,d_ff=16,num_heads=2,batch_tokens=256,train_steps=1,beam_size=1,extra_length=2"
    done = commands.run(
        "tests.distributed.three_devices",
        *corpus,
        "--hparams_set=tiny",
        f"--hparams={hparams},eval_lines=1,micro_batches=4",
        f"--output_dir={tmp_path / 'run'}",
    )
    assert done.returncode == 0
    assert commands.without_progress(done.stderr.decode("utf-8")).startswith("step 1 of 1: loss ")
    out = done.stdout.decode("utf-8")
    assert out.startswith("Using 2 of 3 CPUs, as micro_batches=4 cannot be shared equally among 3. ")
    assert "\nstep 1: dev loss " in out
    assert out.endswith("\n2 logical CPUs\n")


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


def test_workers_that_cannot_share_are_stopped_before_the_data_are_prepared(tmp_path: Path) -> None:
    flags = ["--problem=toy_ende", "--hparams=micro_batches=7", f"--output_dir={tmp_path / 'run'}"]
    done = commands.run("t2t_lite.bin.trainer", *flags, env={**os.environ, "TF_CONFIG": CLUSTER})
    assert done.returncode == 2
    assert done.stderr.startswith(b"error: 2 devices cannot share micro_batches=7 equally. No --devices divides it")
    assert not (tmp_path / "run").exists()
