"""Positional encodings against section 3.5."""

from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import pytest

from t2t_lite.layers.positions import SIGNALS, LearnedPositions, sines_then_cosines, sinusoids
from tests import reference

D = 64


def test_sines_and_cosines_alternate() -> None:
    got = np.asarray(sinusoids(np.arange(32)[None], 4))[0]
    assert got.shape == (32, 4)
    np.testing.assert_allclose(got[0], [0, 1, 0, 1], atol=1e-7)
    at_1 = [np.sin(1), np.cos(1), np.sin(0.01), np.cos(0.01)]  # 10000^(2/4) = 100
    np.testing.assert_allclose(got[1], at_1, rtol=1e-5)


@pytest.mark.parametrize("d_model", [2, 6, 64, 512])
def test_equals_the_equation(d_model: int) -> None:
    positions = np.arange(1024)
    got = np.asarray(sinusoids(positions, d_model), np.float64)
    # In float32 an angle of 1024 is accurate to 2^-14, and its rate to about 2^-23.
    error = np.abs(got - reference.sinusoids(positions, d_model)).max(-1)
    assert (error <= 1e-6 + positions * 2.0**-22).all()
    assert error[:32].max() < 1e-5


def test_a_shift_is_a_linear_map_that_does_not_depend_on_the_position() -> None:
    # "for any fixed offset k, PE(pos + k) can be represented as a linear function of PE(pos)" (section 3.5)
    encoding = np.asarray(sinusoids(np.arange(200), D), np.float64)
    for k in (1, 7, 50):
        rotation = np.zeros((D, D))
        for i in range(D // 2):
            angle = k / 10000 ** (2 * i / D)
            pair = slice(2 * i, 2 * i + 2)
            rotation[pair, pair] = [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]
        np.testing.assert_allclose(encoding[:-k] @ rotation.T, encoding[k:], atol=1e-4)


def test_float32_also_where_the_policy_is_bfloat16() -> None:
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        got = sinusoids(np.array([256, 257]), D)
    finally:
        keras.config.set_dtype_policy(before)
    assert got.dtype == "float32"
    reference.assert_close(got, reference.sinusoids([256, 257], D), 1e-4)
    # bfloat16 cannot represent 257, so it would make the two rows equal.
    assert np.abs(np.asarray(got[0]) - np.asarray(got[1])).max() > 0.1


def test_opennmt_counts_from_one() -> None:
    rates = 10000.0 ** -(np.arange(3) / 2)
    angles = np.arange(1, 9)[:, None] * rates
    wanted = np.concatenate([np.sin(angles), np.cos(angles)], -1)
    reference.assert_close(SIGNALS["opennmt"](np.arange(8), 6), wanted, 1e-5)


def test_positions_may_restart_within_a_row() -> None:
    positions = np.array([[0, 1, 2, 0, 1]])
    got = np.asarray(sinusoids(positions, D))
    np.testing.assert_array_equal(got[0, 3:], got[0, :2])


@pytest.mark.parametrize("d_model", [2, 6, 64, 512])
def test_tensor2tensors_equal_their_equation(d_model: int) -> None:
    positions = np.arange(1024)
    got = np.asarray(sines_then_cosines(positions, d_model), np.float64)
    error = np.abs(got - reference.sines_then_cosines(positions, d_model)).max(-1)
    assert (error <= 1e-6 + positions * 2.0**-22).all()
    np.testing.assert_allclose(got[1, [0, d_model // 2]], [np.sin(1), np.cos(1)], rtol=1e-6)
    if d_model > 2:  # the slowest rate is 1 / 10000 exactly
        np.testing.assert_allclose(got[1000, d_model // 2 - 1], np.sin(0.1), rtol=1e-4)


def test_tensor2tensors_are_those_that_it_computed(shared_data: Callable[[str], Path]) -> None:
    """Checks every 37th row up to position 1,023; exp, sin and cos of TensorFlow 1.15 round differently."""
    golden = np.load(shared_data("t2t_golden") / "positions.npz")
    assert len(golden) >= 3
    for name, wanted in golden.items():
        length, d_model = map(int, name.split("_"))
        positions = np.arange(0, length, 37)
        got = np.asarray(sines_then_cosines(positions, d_model + d_model % 2))[:, :d_model]
        if d_model % 2 == 0:
            assert np.abs(got - wanted).max() <= 1e-4, name
            assert np.abs(got - wanted)[positions < 64].max() <= 1e-5, name


def test_learned_positions_are_rows_of_a_table() -> None:
    layer = LearnedPositions(4, 6)
    got = np.asarray(layer(np.array([[0, 2, 3, 4, 99]], "int32")))
    table = np.asarray(layer.table)
    assert table.shape == (4, 6)
    np.testing.assert_array_equal(got[0], table[[0, 2, 3, 3, 3]])  # past the end: the last row
