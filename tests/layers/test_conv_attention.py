"""Attention of a convolutional decoder's layer against the equations, position by position."""

import numpy as np

from t2t_lite.layers import masks
from t2t_lite.layers.conv_attention import ConvAttention
from tests import convs2s_reference, reference

C, E, T = 4, 3, 5
RNG = np.random.default_rng(1)
IDS = np.array([[5, 9, 1], [7, 1, 0]])
KEYS, VALUES, EMBEDDED = (RNG.standard_normal((2, size, E)).astype("float32") for size in (3, 3, T))
H = RNG.standard_normal((2, T, C)).astype("float32")


def test_equals_the_equations_and_leaves_out_padding() -> None:
    layer = ConvAttention(C, E, name="attention")
    layer.build()
    for w in layer.weights:
        w.assign(RNG.standard_normal(tuple(w.shape)))
    got, weights = layer(H, EMBEDDED, KEYS, VALUES, masks.padding_bias(IDS)[:, 0])
    arrays = list(reference.weights_of(layer).values())
    for row, length in enumerate((3, 2)):
        memory = KEYS[row, :length], VALUES[row, :length]
        for t in range(T):
            wanted, shares = convs2s_reference.attend(H[row, t], EMBEDDED[row, t], *memory, arrays[:3], arrays[3:])
            np.testing.assert_allclose(got[row, t], wanted, rtol=0, atol=1e-5)
            np.testing.assert_allclose(weights[row, t, :length], shares, rtol=0, atol=1e-5)
    assert (np.asarray(weights)[1, :, 2:] == 0).all()
    assert layer.count_params() == (C * E + 2 * E) + (E * C + 2 * C)
