"""Masks: what may attend to what."""

import numpy as np

from t2t_lite.layers import masks

NO = masks.ILLEGAL


def test_padding_is_hidden() -> None:
    got = np.asarray(masks.padding_bias(np.array([[5, 1, 0], [0, 0, 0]], "int32")))
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, np.array([[[[0, 0, NO]]], [[[NO, NO, NO]]]], "float32"))


def test_the_future_is_hidden() -> None:
    wanted = np.array([[0, NO, NO], [0, 0, NO], [0, 0, 0]], "float32")
    got = np.asarray(masks.causal_bias(3))
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, wanted)
    assert masks.causal_bias(0).shape == (0, 0)


def test_pairs_of_a_packed_row_are_apart() -> None:
    queries = np.array([[1, 2, 2, 0]], "int32")
    keys = np.array([[1, 1, 2, 0, 0]], "int32")
    wanted = [[0, 0, NO, NO, NO], [NO, NO, 0, NO, NO], [NO, NO, 0, NO, NO], [NO] * 5]
    np.testing.assert_array_equal(masks.segment_bias(queries, keys), np.array([[wanted]], "float32"))


def test_an_illegal_score_has_no_weight_at_all() -> None:
    # Minus infinity in the paper (section 3.2.3): in float32 the weight is 0, also next to a very small score.
    assert np.exp(np.float32(NO) - np.float32(-1e4)) == 0
    # The sum of two masks (causal and segments) is still finite, also in bfloat16's range.
    assert np.isfinite(np.float32(NO) + np.float32(NO))
