"""Devices of a run, the precision that they are fast in, and whether XLA compiles."""

import contextlib
import dataclasses
import functools
import itertools
import os
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.python.distribute.collective_all_reduce_strategy import CollectiveAllReduceExtended
from tensorflow.python.eager import context

from t2t_lite.cpus import instruction_sets
from t2t_lite.distributed.cluster import VARIABLE, Cluster, read_cluster
from t2t_lite.distributed.rendezvous import CONNECT_SECONDS, DEFAULT_SECONDS, join
from t2t_lite.errors import TrainingError, UsageError
from t2t_lite.ops import threads
from t2t_lite.signals import reinstall_handlers

BFLOAT16_SETS = {"avx512_bf16", "amx_bf16"}  # of x86 processors, for products
_BFLOAT16_SINCE = (8, 0)  # compute capability
_KEYS = 1000  # more than a strategy has groups of devices
_strategies = itertools.count()
_MOST_BLOCKS = 4  # of rows: each has gradients of its own for all weights, which must be added up


@dataclasses.dataclass(frozen=True)
class Devices:
    """What to train on. None of it changes the result.

    Attributes:
        number: devices of this process; None: all GPUs, or one CPU.
        strategy: one of STRATEGIES. "auto": multi_worker where TF_CONFIG names a cluster, mirrored where there are
            several devices, else one_device.
        accumulate: parts of a device's share of a batch, computed one after the other; None: as few as its memory
            allows.
        join_timeout: how many seconds to wait for the other workers of a cluster.
        join_key: as of `join`.
    """

    number: int | None = None
    strategy: str = "auto"
    accumulate: int | None = None
    join_timeout: float = DEFAULT_SECONDS
    join_key: str = dataclasses.field(default="", repr=False)


def make_strategy(devices: Devices, output_dir: Path = Path()) -> tf.distribute.Strategy:
    """Returns a strategy over GPUs, or over as many logical CPUs if there is no GPU.

    Logical CPUs can only be made before TensorFlow has touched its devices.

    Args:
        output_dir: the run's folder, by which the workers of a cluster know each other.

    Raises:
        UsageError: fewer GPUs than asked for, settings that do not go together, or too late for logical CPUs.
        TrainingError: the cluster cannot be joined.
    """
    number, kind = _resolve(devices)
    gpus = tf.config.list_physical_devices("GPU")
    for gpu in gpus:
        with contextlib.suppress(RuntimeError):  # too late, as after t2t_lite.load: memory stays as it is
            tf.config.experimental.set_memory_growth(gpu, True)
    if not gpus and number > 1:
        cpu = tf.config.list_physical_devices("CPU")[0]
        try:
            tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * number)
        except RuntimeError:
            raise UsageError(
                f"--devices={number}: TensorFlow has begun to compute in this process, with one CPU. Start a new "
                "process, or leave devices out."
            ) from None
    if cluster := read_cluster(os.environ):  # `kind` is multi_worker then, and only then
        if gpus:
            tf.config.set_visible_devices(gpus[:number], "GPU")
        join(cluster, number, output_dir, devices.join_timeout, devices.join_key)
        return _multi_worker(cluster, 0 if gpus else number)
    names = [f"{'GPU' if gpus else 'CPU'}:{i}" for i in range(number)]
    if kind == "one_device":
        return tf.distribute.OneDeviceStrategy(f"/{names[0]}")
    return _mirrored(names)


def _mirrored(names: list[str]) -> tf.distribute.Strategy:
    """A strategy whose sums have other keys than those of earlier ones: TensorFlow keeps what a key stands for."""
    keys = {"_collective_key_base": _KEYS * next(_strategies)}
    return type("MirroredStrategy", (tf.distribute.MirroredStrategy,), keys)(names)


def available_devices() -> tuple[str, int]:
    """What this machine trains on by default: ("GPU", how many there are), or ("CPU", 1) where there is none."""
    gpus = len(tf.config.list_physical_devices("GPU"))
    return ("GPU", gpus) if gpus else ("CPU", 1)


def on_gpus() -> bool:
    """Whether there are GPUs, on which all training then runs."""
    return bool(tf.config.list_physical_devices("GPU"))


def auto_precision() -> str:
    """What precision=auto means here.

    On GPUs bfloat16 or, if one of them has no units for it, float16. On a CPU bfloat16 if it has AVX512-BF16 or AMX,
    else float32.
    """
    if on_gpus():
        return "float16" if gpu_without_bfloat16() else "bfloat16"
    return "bfloat16" if BFLOAT16_SETS & set(instruction_sets()) else "float32"


def gpu_without_bfloat16() -> str | None:
    """The name and compute capability of the first GPU that has no units for bfloat16; None: there is none."""
    for gpu in tf.config.list_physical_devices("GPU"):
        details = tf.config.experimental.get_device_details(gpu)
        capability = details.get("compute_capability", _BFLOAT16_SINCE)  # GPUs that are not NVIDIA's have none
        if capability < _BFLOAT16_SINCE:
            return f"{details.get('device_name', gpu.name)} (compute capability {'.'.join(map(str, capability))})"
    return None


def use_jit(jit: str) -> bool:
    """Whether to compile with XLA: `jit` is "on", "off" or "auto", which means on GPUs only.

    On CPUs plain graphs, whose products run in oneDNN, are faster than XLA's code.
    """
    return jit == "on" or (jit == "auto" and on_gpus())


def share_processors(rows: int, jit: str) -> None:
    """Lets each processor compute its own rows, if there is no GPU and there are enough rows.

    Must be called before TensorFlow has touched its devices.

    Args:
        rows: the least number of rows of a device.
        jit: as for `use_jit`; XLA distributes its work over the processors itself.
    """
    if not use_jit(jit):
        threads.set_inter_op_parallelism(at_most=min(rows // 2, _MOST_BLOCKS))


def check_devices(devices: Devices) -> None:
    """Raises UsageError if the devices are not there, or the settings do not go together."""
    _resolve(devices)


def number_of_devices(devices: Devices) -> int:
    """Returns how many devices train, of all workers together; UsageError if they are not there."""
    cluster = read_cluster(os.environ)
    return _resolve(devices)[0] * (len(cluster.addresses) if cluster else 1)


def _resolve(devices: Devices) -> tuple[int, str]:
    """The number of this process's devices, and which of STRATEGIES trains on them; UsageError if that cannot be."""
    of, there = available_devices()
    if of == "GPU" and (devices.number or 1) > there:
        raise UsageError(f"--devices={devices.number}, but this machine has {there} GPU{'s' * (there > 1)}.")
    number = devices.number or (1 if devices.strategy == "one_device" else there)
    cluster, kind = read_cluster(os.environ), devices.strategy
    if kind == "auto":
        kind = "multi_worker" if cluster else "mirrored" if number > 1 else "one_device"
    elif kind == "one_device" and number > 1:
        raise UsageError(f"--strategy=one_device, but --devices={number}.")
    elif kind == "multi_worker" and cluster is None:
        raise UsageError(f"--strategy=multi_worker needs the environment variable {VARIABLE}, which names the workers.")
    elif kind != "multi_worker" and cluster is not None:
        raise UsageError(
            f"--strategy={kind}, but {VARIABLE} names a cluster. Unset {VARIABLE}, or leave --strategy out."
        )
    return number, kind


def _multi_worker(cluster: Cluster, cpus: int) -> tf.distribute.Strategy:
    """Connects the workers; without GPUs, with `cpus` logical CPUs in this process in their place."""
    if cpus > 1:
        # TensorFlow would take only one CPU of each process.
        def local_devices(self: Any, resolver: Any, worker_device: str) -> tuple[tuple[str, ...], str]:
            return tuple(f"{worker_device}/device:CPU:{i}" for i in range(cpus)), "CPU"

        CollectiveAllReduceExtended._initialize_local_devices = local_devices
    # What `read_cluster` has understood, instead of TensorFlow's own reading of TF_CONFIG: the chief is worker 0.
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": cluster.addresses}), task_type="worker", task_id=cluster.index, rpc_layer="grpc"
    )
    runtime = context.context()
    # The others wait for the chief, which starts last. By default TensorFlow would wait for an hour.
    runtime.configure_coordination_service = functools.partial(
        runtime.configure_coordination_service, cluster_register_timeout_in_ms=2 * CONNECT_SECONDS * 1000
    )
    try:
        return tf.distribute.MultiWorkerMirroredStrategy(resolver)
    except tf.errors.OpError as error:
        reason = str(error.message).partition("\n")[0]
        raise TrainingError(
            f"The cluster of {VARIABLE} could not be joined: {reason}. Start the same command on every worker again."
        ) from error
    finally:
        reinstall_handlers()
