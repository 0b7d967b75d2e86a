"""Which devices train, and whether XLA compiles."""

from __future__ import annotations

import tensorflow as tf

from t2t_lite.errors import UsageError


def make_strategy(devices: int | None = None) -> tf.distribute.Strategy:
    """Returns a strategy over `devices` GPUs, or over that many logical CPUs where there is no GPU.

    Must be called before TensorFlow has touched its devices.

    Args:
        devices: number of devices; None: all GPUs, or one CPU.

    Raises:
        UsageError: fewer GPUs than asked for.
    """
    gpus = tf.config.list_physical_devices("GPU")
    number = max(len(gpus), 1) if devices is None else devices
    if number < 1:
        raise UsageError(f"--devices={number} must be at least 1.")
    if gpus and number > len(gpus):
        raise UsageError(f"--devices={number}, but this machine has {len(gpus)} GPUs.")
    kind = "GPU" if gpus else "CPU"
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)
    if not gpus and number > 1:
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * number)
    if number == 1:
        return tf.distribute.OneDeviceStrategy(f"/{kind}:0")
    return tf.distribute.MirroredStrategy([f"{kind}:{i}" for i in range(number)])


def use_jit(jit: str) -> bool:
    """Whether to compile with XLA: `jit` is "on", "off" or "auto", which means on GPUs only.

    On CPUs plain graphs, whose products run in oneDNN, are faster than XLA's code.
    """
    return jit == "on" or (jit == "auto" and bool(tf.config.list_physical_devices("GPU")))
