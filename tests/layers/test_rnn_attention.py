"""Attention of a recurrent decoder against the equations, query by query."""

import numpy as np
import pytest

from t2t_lite.layers import masks
from t2t_lite.layers.rnn_attention import RnnAttention, Score
from tests import reference, rnn_reference

U = 4
RNG = np.random.default_rng(1)
IDS = np.array([[5, 9, 1], [7, 1, 0]])
MEMORY, QUERY = (RNG.standard_normal((2, size, U)).astype("float32") for size in (3, 5))


@pytest.mark.parametrize("score", ["general", "additive"])
def test_equals_the_equations_and_leaves_out_padding(score: Score) -> None:
    layer = RnnAttention(U, score, name="attention")
    layer.build()
    for w in layer.weights:
        w.assign(RNG.standard_normal(tuple(w.shape)))
    got, weights = layer(QUERY, MEMORY, layer.keys(MEMORY), masks.padding_bias(IDS)[:, 0])
    arrays = reference.weights_of(layer)
    for row, length in enumerate((3, 2)):
        for at, query in enumerate(QUERY[row]):
            wanted, shares = rnn_reference.attend(query, MEMORY[row, :length], arrays)
            reference.assert_close(got[row, at], wanted, 1e-5)
            reference.assert_close(weights[row, at, :length], shares, 1e-5)
    assert (np.asarray(weights)[1, :, 2:] == 0).all()
