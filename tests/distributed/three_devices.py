"""Runs t2t-lite-trainer with three logical CPUs as devices, as on a machine with three GPUs."""

import tensorflow as tf

from t2t_lite.cli import trainer
from t2t_lite.distributed import devices

if __name__ == "__main__":
    devices.available_devices = lambda: ("CPU", 3)
    status = trainer.main()
    print(len(tf.config.list_logical_devices("CPU")), "logical CPUs")
    raise SystemExit(status)
