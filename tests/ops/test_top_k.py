"""The largest numbers of long rows against TensorFlow's own top_k."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.ops.top_k import top_k


@pytest.mark.commit
@pytest.mark.parametrize("k", [1, 3, 9, 43])
@pytest.mark.parametrize("size", [43, 800, 3989, 8000, 12000, 37000])  # 43 and 3989 are prime: no blocks
@pytest.mark.parametrize("levels", [2, 50, 10**6])  # from nearly all equal to hardly any
def test_equals_tensorflows(size: int, k: int, levels: int) -> None:
    values = np.random.default_rng(size + k).integers(0, levels, (2, 3, size)).astype("float32")
    values[0, 0, 5] = np.inf
    values[0, 1, 7:] = -np.inf
    wanted, wanted_places = tf.math.top_k(values, k)
    got, places = top_k(tf.constant(values), k)
    np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(places, wanted_places)
    assert places.dtype == tf.int32


def test_shapes_that_are_not_known_beforehand() -> None:
    @tf.function(input_signature=[tf.TensorSpec([None, 2, 800])], autograph=False)
    def search(values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        best, places = top_k(values, 4)
        assert best.shape.as_list() == places.shape.as_list() == [None, 2, 4]
        return best, places

    values = np.random.default_rng(1).standard_normal((3, 2, 800)).astype("float32")
    np.testing.assert_array_equal(search(values)[1], tf.math.top_k(values, 4)[1])
    assert search(values[:0])[0].shape == (0, 2, 4)
