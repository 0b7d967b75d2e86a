"""How many devices train: all that are there, or any number that is given, and always to the same result."""

import json
from pathlib import Path

import pytest
import tensorflow as tf
from tensorflow.python.eager import context

from t2t_lite.distributed import devices as module
from t2t_lite.distributed.devices import Devices, auto_precision, check_devices, make_strategy, number_of_devices
from t2t_lite.errors import UsageError
from t2t_lite.training.describe import precision_warning
from tests import commands

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
    if devices.strategy == "auto":
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


@pytest.mark.parametrize(
    ("capabilities", "precision"), [([(8, 0)], "bfloat16"), ([(9, 0), (7, 5)], "float16"), ([(7, 0)], "float16")]
)
def test_auto_means_float16_where_a_gpu_has_no_bfloat16(
    monkeypatch: pytest.MonkeyPatch, capabilities: list[tuple[int, int]], precision: str
) -> None:
    """Stands in for machines with these GPUs."""
    gpus = [tf.config.PhysicalDevice(f"GPU {i}", "GPU") for i in range(len(capabilities))]
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: gpus)
    details = {
        gpu.name: {"device_name": gpu.name, "compute_capability": each}
        for gpu, each in zip(gpus, capabilities, strict=True)
    }
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda gpu: details[gpu.name])
    assert auto_precision() == precision
    warning = precision_warning("bfloat16")
    assert (warning is None) == (precision == "bfloat16")
    if capabilities == [(9, 0), (7, 5)]:
        assert str(warning).startswith("warning: GPU 1 (compute capability 7.5) has no units for bfloat16")
    assert precision_warning("float16") is None


def test_auto_on_a_cpu_asks_for_its_flags(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [])
    for flags, precision in (("avx2 avx512f", "float32"), ("avx512f avx512_bf16", "bfloat16")):
        (tmp_path / "cpuinfo").write_text(f"flags\t\t: fpu {flags} sse\n", encoding="utf-8")
        monkeypatch.setattr("t2t_lite.cpus._CPUINFO", tmp_path / "cpuinfo")
        assert auto_precision() == precision
        assert (precision_warning("bfloat16") is None) == (precision == "bfloat16")
    monkeypatch.setattr("t2t_lite.cpus._CPUINFO", tmp_path / "none")
    assert auto_precision() == "float32"
    assert precision_warning("bfloat16") is None
    assert str(precision_warning("float16")).startswith("warning: float16 is for GPUs")


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


@pytest.mark.commit
def test_trainings_of_one_process_do_not_take_each_others_sums() -> None:
    """TensorFlow keeps the shape that a sum had under a key, and a strategy begins with the same keys as another."""
    done = commands.run("tests.distributed.strategies_worker")
    assert (done.returncode, done.stdout) == (0, b"6.0 10.0 14.0\n"), done.stderr.decode()
