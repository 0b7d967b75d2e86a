"""Dilated convolutions, and residual blocks of them, against the equations."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.layers.dilated_convolution import DilatedConvolution
from t2t_lite.layers.residual_block import ResidualBlock, Size
from tests import bytenet_reference, reference

I, O, T = 3, 4, 7  # noqa: E741
RNG = np.random.default_rng(1)


@pytest.mark.parametrize(("width", "dilation"), [(1, 1), (1, 4), (2, 3), (3, 1), (3, 2)])
def test_equals_the_equation_for_any_axes_before_the_positions(width: int, dilation: int) -> None:
    layer = DilatedConvolution(I, O, width, dilation, name="convolution")
    layer.build()
    reference.randomise(layer, 2)
    assert layer.span == (width - 1) * dilation
    x = RNG.standard_normal((2, 3, T + layer.span, I)).astype("float32")
    got = np.asarray(layer(x))
    assert got.shape == (2, 3, T, O)
    kernel, bias = reference.weights_of(layer).values()
    for row, hypothesis in np.ndindex(2, 3):
        wanted = bytenet_reference.convolve(np.float64(x[row, hypothesis]), kernel, bias, dilation, 0)
        np.testing.assert_allclose(got[row, hypothesis], wanted[:T], rtol=0, atol=1e-5)
    assert layer.size == kernel.size
    assert layer.count_params() == width * I * O + O
    without = DilatedConvolution(I, O, width, dilation, bias=False)
    without.build()
    assert without.count_params() == width * I * O


@pytest.mark.parametrize("normalised", [False, True])
def test_a_block_adds_what_its_convolutions_make_of_normalised_inputs(normalised: bool) -> None:
    block = ResidualBlock([Size(I, 2), Size(2, I, 3, 2)], 0.5, normalised, name="block")
    block.build()
    reference.randomise(block, 3)
    weights = {path.removeprefix("block/"): value for path, value in reference.weights_of(block).items()}
    x = RNG.standard_normal((2, T, I))

    def widen(convolution: DilatedConvolution, rows: tf.Tensor) -> tf.Tensor:
        return tf.pad(rows, ((0, 0), (convolution.span, 0), (0, 0)))

    def normed(name: str, rows: np.ndarray) -> np.ndarray:
        return reference.layer_norm(rows, weights[f"{name}/gamma"], weights[f"{name}/beta"])

    added = x
    for i, before in enumerate((0, 4)):
        inputs = bytenet_reference.relu(normed(f"norm_{i}", added))
        parts = (weights[f"convolution_{i}/kernel"], weights.get(f"convolution_{i}/bias"), 2)
        added = np.stack([bytenet_reference.convolve(rows, *parts, before) for rows in inputs])
    added = normed("last_norm", added) if normalised else added
    reference.assert_close(block(x.astype("float32"), widen=widen), x + added, 1e-5)
    dropped = np.asarray(block(x.astype("float32"), widen=widen, seed=np.array([1, 2, 0], "int32")), np.float64) - x
    kept = dropped / added
    assert set(np.round(kept, 2).ravel()) == {0.0, 2.0}
