"""ByteNet in float64 NumPy, one position of one sentence at a time, for comparison.

Nothing here comes from the package. Source: Kalchbrenner et al. (2016), sections 3.2 to 3.5 and Figure 3. With
`tensor2tensor` the model computes what models/bytenet.py of tensor2tensor 1.15.7 does.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from tests.reference import layer_norm

Array = np.ndarray


def relu(x: Array) -> Array:
    return np.maximum(0, x)


def convolve(rows: Array, kernel: Array, bias: Array | None, dilation: int, before: int) -> Array:
    """Convolves `rows` with `kernel` [k I, O].

    Output t: sum over i of row t - before + i dilation, zero outside, times the i-th block of I rows of `kernel`.
    """
    inputs, out = rows.shape[1], np.zeros((len(rows), kernel.shape[1]))
    for t in range(len(rows)):
        for i in range(len(kernel) // inputs):
            at = t - before + i * dilation
            if 0 <= at < len(rows):
                out[t] += rows[at] @ kernel[i * inputs : (i + 1) * inputs]
        out[t] += 0 if bias is None else bias
    return out


@dataclasses.dataclass(frozen=True)
class ByteNet:
    """The model with given weights.

    Args:
        weights: from `reference.weights_of`.
        num_layers: blocks of each side.
        width: k of the wide convolutions.
        dilations: the number of dilations (1, 2, 4, ...).
        factor, extra: a and b of |t| = a |s| + b; a as text.
        tensor2tensor: whether the wiring is tensor2tensor's.
    """

    weights: Mapping[str, Array]
    num_layers: int
    width: int
    dilations: int
    factor: str
    extra: int
    tensor2tensor: bool

    def __call__(self, source: Array, target: Array) -> Array:
        """Logits [T, V] of one pair, ids [S] and [T] without padding."""
        columns = math.ceil(Fraction(self.factor) * len(source)) + self.extra
        read = self._encode(np.concatenate([self._vectors("source", source), self._zeros(columns - len(source))]))
        read = np.concatenate([read, self._zeros(len(target))])[: len(target)]
        before = np.concatenate([self._zeros(1), self._vectors("target", target[:-1])])
        if self.tensor2tensor:
            both = relu(np.concatenate([read, before], 1))
            x = convolve(both, self.weights["decoder/join/kernel"], None, 1, self.width - 1)
            hidden = self._blocks("decoder", self._normed("decoder/join_norm", x), causal=True)
        else:
            hidden = relu(self._normed("decoder/norm", self._blocks("decoder", read + before, causal=True)))
        return hidden @ self.weights["softmax/table"].T

    def _encode(self, x: Array) -> Array:
        x = self._blocks("encoder", x, causal=False)
        return x if self.tensor2tensor else self._normed("encoder/norm", x)

    def _blocks(self, side: str, x: Array, causal: bool) -> Array:
        for i in range(self.num_layers):
            name, added = f"{side}/block_{i}", x
            if self.tensor2tensor:
                layers = [(self.width, 2**n) for n in range(self.dilations)]
            else:
                layers = [(1, 1), (self.width, 2 ** (i % self.dilations)), (1, 1)]
            for n, (width, dilation) in enumerate(layers):
                reach = (width - 1) * dilation
                kernel, bias = (self.weights.get(f"{name}/convolution_{n}/{part}") for part in ("kernel", "bias"))
                added = relu(self._normed(f"{name}/norm_{n}", added))
                assert kernel is not None
                assert kernel.shape[0] == width * added.shape[1]
                assert (bias is None) == self.tensor2tensor
                added = convolve(added, kernel, bias, dilation, reach if causal else reach // 2)
            x = x + (self._normed(f"{name}/last_norm", added) if self.tensor2tensor else added)
        return x

    def _normed(self, name: str, x: Array) -> Array:
        return layer_norm(x, self.weights[f"{name}/gamma"], self.weights[f"{name}/beta"])

    def _vectors(self, side: str, ids: Array) -> Array:
        table = self.weights[f"{side}_embedding/table"]
        return table[np.asarray(ids, int)] * np.sqrt(table.shape[1])

    def _zeros(self, rows: int) -> Array:
        return np.zeros((rows, self.weights["softmax/table"].shape[1]))
