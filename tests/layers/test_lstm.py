"""LSTM layers against the equations, symbol by symbol."""

from typing import Any

import keras
import numpy as np
import pytest

from t2t_lite.layers.lstm import Lstm, backwards, lstm_cell
from tests import reference, rnn_reference

INPUTS, U = 3, 4
RNG = np.random.default_rng(1)
X = RNG.standard_normal((2, 5, INPUTS)).astype("float32")


def _layer(reverse: bool = False) -> Lstm:
    layer = Lstm(U, reverse, name="lstm")
    layer.build((None, None, INPUTS))
    for w in layer.weights:
        w.assign(RNG.standard_normal(tuple(w.shape)))
    return layer


def _by_hand(layer: Lstm, x: Any, state: tuple[Any, Any]) -> tuple[np.ndarray, np.ndarray]:
    """All h and all c [T, U] of one sentence."""
    w = {name: np.asarray(getattr(layer, name), np.float64) for name in ("kernel", "recurrent_kernel", "bias")}
    states = []
    for x_t in np.asarray(x, np.float64):
        state = rnn_reference.cell(np.concatenate([w["kernel"], w["recurrent_kernel"]]), w["bias"], x_t, *state)
        states.append(state)
    h, c = zip(*states, strict=True)
    return np.array(h), np.array(c)


def test_the_cell_is_the_equation() -> None:
    gates, c = RNG.standard_normal((2, 4 * U)).astype("float32"), RNG.standard_normal((2, U)).astype("float32")
    got = lstm_cell(gates, c)
    for row in range(2):
        nothing = np.zeros((2, 4 * U))
        wanted = rnn_reference.cell(nothing, gates[row], np.zeros(1), np.zeros(1), c[row])
        for mine, theirs in zip(got, wanted, strict=True):
            reference.assert_close(mine[row], theirs, 1e-6)


def test_outputs_and_the_state_before_the_padding_equal_the_equations() -> None:
    layer = _layer()
    h, c = (RNG.standard_normal((2, 1, U)).astype("float32") for _ in range(2))
    for state in (None, (h, c)):
        outputs, after = layer(X, state=state, lengths=np.array([5, 2]))
        for row, length in enumerate((5, 2)):
            before = (np.zeros(U), np.zeros(U)) if state is None else (h[row, 0], c[row, 0])
            all_h, all_c = _by_hand(layer, X[row], before)
            reference.assert_close(outputs[row], all_h, 1e-5)
            reference.assert_close(after[0][row, 0], all_h[length - 1], 1e-5)
            reference.assert_close(after[1][row, 0], all_c[length - 1], 1e-5)


def test_rows_are_turned_round_before_their_padding() -> None:
    x = np.arange(12).reshape(3, 4, 1)
    wanted = [[3, 2, 1, 0], [5, 4, 6, 7], [8, 9, 10, 11]]
    np.testing.assert_array_equal(backwards(x, np.array([4, 2, 0]))[..., 0], wanted)


def test_reverse_begins_at_the_end_of_each_sentence() -> None:
    layer = _layer(True)
    outputs, after = layer(X, lengths=np.array([5, 2]))
    for row, length in enumerate((5, 2)):
        all_h, all_c = _by_hand(layer, X[row, :length][::-1], (np.zeros(U), np.zeros(U)))
        reference.assert_close(outputs[row, :length], all_h[::-1], 1e-5)
        reference.assert_close(after[0][row, 0], all_h[-1], 1e-5)
        reference.assert_close(after[1][row, 0], all_c[-1], 1e-5)


@pytest.mark.parametrize("reverse", [False, True])
def test_padding_changes_no_state(reverse: bool) -> None:
    layer = _layer(reverse)
    changed = X.copy()
    changed[1, 2:] = 100
    lengths = np.array([5, 2])
    (_, one), (_, other) = layer(X, lengths=lengths), layer(changed, lengths=lengths)
    for mine, theirs in zip(one, other, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_one_position_after_the_other_is_the_whole() -> None:
    layer = _layer()
    outputs, (h, c) = layer(X, lengths=np.array([5, 5]))
    state = np.zeros((2, 3, U), "float32"), np.zeros((2, 3, U), "float32")  # three hypotheses of each sentence
    for t in range(5):
        state = layer.after(layer.of_input(np.repeat(X[:, t : t + 1], 3, 1)), state)
        for k in range(3):
            np.testing.assert_allclose(state[0][:, k], outputs[:, t], atol=1e-6)
    np.testing.assert_allclose(state[1][:, :1], c, atol=1e-6)
    np.testing.assert_allclose(state[0][:, :1], h, atol=1e-6)


def test_states_are_float32_in_bfloat16() -> None:
    layer = Lstm(U, dtype="mixed_bfloat16", name="lstm")
    layer.build((None, None, INPUTS))
    outputs, state = layer(X, lengths=np.array([5, 2]))
    names = [keras.backend.standardize_dtype(value.dtype) for value in (outputs, *state, *layer.weights)]
    assert names == ["bfloat16", *["float32"] * 5]
