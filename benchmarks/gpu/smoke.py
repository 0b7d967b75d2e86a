"""What TensorFlow sees of a GPU machine, and one product on it."""

from __future__ import annotations

import os
import sys

os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")


def main() -> None:
    """Runs the script; --without_gpu: also where there is none."""
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    print(tf.__version__, gpus, [tf.config.experimental.get_device_details(gpu) for gpu in gpus])
    if not gpus and "--without_gpu" not in sys.argv:
        raise SystemExit("TensorFlow found no GPU.")
    a = tf.random.normal([512, 512])
    difference = tf.reduce_max(tf.abs(tf.matmul(a, a) - tf.constant(a.numpy() @ a.numpy())))
    print(f"a product of 512 x 512, beside NumPy's: {float(difference):.4f} apart at most")
    compiled = tf.function(lambda x: tf.reduce_sum(tf.nn.softmax(tf.matmul(x, x))), jit_compile=True)
    print(f"sum of 512 softmaxes with XLA: {float(compiled(a)):.3f}")


if __name__ == "__main__":
    main()
