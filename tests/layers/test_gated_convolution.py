"""Gated convolutions against the equations, window by window."""

import numpy as np
import pytest

from t2t_lite.layers.gated_convolution import GatedConvolution
from tests import convs2s_reference, reference

I, O, T = 3, 4, 5  # noqa: E741
RNG = np.random.default_rng(1)


@pytest.mark.parametrize("width", [1, 2, 3])
def test_equals_the_equation_for_any_axes_before_the_positions(width: int) -> None:
    layer = GatedConvolution(I, O, width, 0.3, name="convolution")
    layer.build()
    for w in layer.weights:
        w.assign(RNG.standard_normal(tuple(w.shape)))
    arrays = reference.weights_of(layer).values()
    x = RNG.standard_normal((2, 3, T + width - 1, I)).astype("float32")
    got = np.asarray(layer(x))
    assert got.shape == (2, 3, T, O)
    for row, hypothesis, t in np.ndindex(2, 3, T):
        wanted = convs2s_reference.gated(np.float64(x[row, hypothesis, t : t + width]), *arrays)
        np.testing.assert_allclose(got[row, hypothesis, t], wanted, rtol=0, atol=1e-5)
    np.testing.assert_allclose(layer(x[:, 0]), got[:, 0], rtol=0, atol=1e-6)
    assert layer.count_params() == width * I * 2 * O + 4 * O  # v, g and bias
