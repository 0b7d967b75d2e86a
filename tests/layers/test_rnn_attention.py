"""Attention of a recurrent decoder against the equations, query by query."""

from typing import get_args

import numpy as np
import pytest

from t2t_lite.layers import masks
from t2t_lite.layers.rnn_attention import Result, RnnAttention, Score
from tests import reference, rnn_reference

U = 4
RNG = np.random.default_rng(1)
IDS = np.array([[5, 9, 1], [7, 1, 0]])
MEMORY, QUERY = (RNG.standard_normal((2, size, U)).astype("float32") for size in (3, 5))


@pytest.mark.parametrize("score", get_args(Score))
@pytest.mark.parametrize(("result", "outputs"), [("tanh", None), ("linear", 3), ("concat", None), ("context", None)])
def test_equals_the_equations_and_leaves_out_padding(score: Score, result: Result, outputs: int | None) -> None:
    layer = RnnAttention(U, score, result, outputs, name="attention")
    layer.build()
    for w in layer.weights:
        w.assign(RNG.standard_normal(tuple(w.shape)))
    got, weights = layer(QUERY, MEMORY, layer.keys_of(MEMORY), masks.padding_bias(IDS)[:, 0])
    assert got.shape[-1] == layer.outputs == {"tanh": U, "linear": 3, "concat": 2 * U, "context": U}[result]
    arrays = reference.weights_of(layer)
    for row, length in enumerate((3, 2)):
        for at, query in enumerate(QUERY[row]):
            wanted, shares = rnn_reference.attend(score, result, query, MEMORY[row, :length], arrays)
            reference.assert_close(got[row, at], wanted, 1e-5)
            reference.assert_close(weights[row, at, :length], shares, 1e-5)
    assert (np.asarray(weights)[1, :, 2:] == 0).all()


def test_normed_additive_begins_with_the_gain_of_tensorflow_nmt() -> None:
    layer = RnnAttention(U, "normed_additive", name="attention")
    layer.build()
    assert np.asarray(layer.gain).tolist() == [U**-0.5]
    assert not np.asarray(layer.bias).any()
