"""Several uses of an array."""

import numpy as np
import tensorflow as tf

from t2t_lite.layers.fork import fork


def test_the_gradient_is_the_sum_of_those_of_all_uses() -> None:
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    with tf.GradientTape() as tape:
        tape.watch(x)
        first, second, third = fork(x, 3)
        loss = tf.reduce_sum(first + 2.0 * second + third * third)
    np.testing.assert_array_equal(first, x)
    np.testing.assert_array_equal(tape.gradient(loss, x), 3.0 + 2.0 * x)
