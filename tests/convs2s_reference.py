"""The convolutional encoder-decoder in float64 NumPy, one position of one sentence at a time, for comparison.

Nothing here comes from the package. Sources: Gehring et al. (2017), sections 3.1 to 3.4; Salimans and Kingma (2016),
equation 2.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tests import reference
from tests.reference import softmax

Array = np.ndarray


def randomise(model: Any, seed: int, scale: float = 1.0) -> None:
    """Sets all weights: gains are around `scale`; vectors of symbols and of positions have equal influence."""
    reference.randomise(model, seed)
    rng = np.random.default_rng(seed)
    for w in model.weights:
        if w.path.endswith(("_embedding/table", "_embedding/positions")):
            w.assign(rng.standard_normal(tuple(w.shape)))
        elif w.path.endswith("/gain"):
            w.assign(scale * (1 + np.asarray(w)))


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def linear(x: Array, direction: Array, gain: Array, bias: Array) -> Array:
    """Output o: (g_o / |v_o|) v_o . x + b_o."""
    return np.array([g / np.sqrt((v**2).sum()) * (v @ x) + b for v, g, b in zip(direction, gain, bias, strict=True)])


def gated(window: Sequence[Array], direction: Array, gain: Array, bias: Array) -> Array:
    """GLU of a convolution at one position: a sigmoid(b), [a b] = W [inputs of the window] + bias."""
    a, b = np.split(linear(np.concatenate(window), direction, gain, bias), 2)
    return a * sigmoid(b)


def attend(
    h: Array, embedded: Array, keys: Array, values: Array, query: Sequence[Array], output: Sequence[Array]
) -> tuple[Array, Array]:
    """Returns, for one position, (out(c) + h) sqrt(1/2) and the attention weights; c is their sum over `values`."""
    d = (linear(h, *query) + embedded) * np.sqrt(0.5)
    shares = softmax(np.array([d @ z for z in keys]))
    return (linear(shares @ values, *output) + h) * np.sqrt(0.5), shares


@dataclasses.dataclass(frozen=True)
class ConvS2S:
    """The model with given weights.

    Args:
        weights: from `reference.weights_of`.
        widths: of the convolutions, for the encoder and the decoder.
    """

    weights: Mapping[str, Array]
    widths: tuple[Sequence[int], Sequence[int]]

    def __call__(self, source: Array, target: Array) -> tuple[Array, Array]:
        """Logits [T, V] and weights [L, T, S] of one pair, ids [S] and [T] without padding."""
        z, y = self._encode(source)
        before = [0, *target[:-1]]
        g = self._embedded("target", before)
        x = [self._linear("decoder/input", v) for v in g]
        maps = []
        for i, width in enumerate(self.widths[1]):
            zeros = [np.zeros_like(x[0])] * (width - 1)
            h = [self._gated(f"decoder/convolution_{i}", [*zeros, *x][t : t + width]) for t in range(len(x))]
            parts = [self._of(f"decoder/attention_{i}/{name}") for name in ("query", "output")]
            both = [attend(h_t, g_t, z, y * np.sqrt(len(source)), *parts) for h_t, g_t in zip(h, g, strict=True)]
            x = self._residual(f"decoder/projection_{i}", x, [h_t for h_t, _ in both])
            maps.append([shares for _, shares in both])
        return np.array([self._linear("softmax", self._linear("decoder/output", v)) for v in x]), np.array(maps)

    def _encode(self, source: Array) -> tuple[Array, Array]:
        e = self._embedded("source", source)
        x = [self._linear("encoder/input", v) for v in e]
        for i, width in enumerate(self.widths[0]):
            zeros = [np.zeros_like(x[0])]
            padded = [*zeros * ((width - 1) // 2), *x, *zeros * (width // 2)]
            h = [self._gated(f"encoder/convolution_{i}", padded[t : t + width]) for t in range(len(x))]
            x = self._residual(f"encoder/projection_{i}", x, h)
        z = np.array([self._linear("encoder/output", v) for v in x])
        return z, (z + e) * np.sqrt(0.5)

    def _residual(self, path: str, x: list[Array], h: list[Array]) -> list[Array]:
        if f"{path}/gain" in self.weights:
            x = [self._linear(path, v) for v in x]
        return [(h_t + x_t) * np.sqrt(0.5) for h_t, x_t in zip(h, x, strict=True)]

    def _embedded(self, side: str, ids: Sequence[int]) -> Array:
        table, positions = (self.weights[f"{side}_embedding/{name}"] for name in ("table", "positions"))
        vectors = [table[symbol] if symbol else np.zeros(table.shape[1]) for symbol in ids]
        return np.array([v + positions[min(i, len(positions) - 1)] for i, v in enumerate(vectors)])

    def _of(self, path: str) -> list[Array]:
        return [self.weights[f"{path}/{name}"] for name in ("direction", "gain", "bias")]

    def _linear(self, path: str, x: Array) -> Array:
        return linear(x, *self._of(path))

    def _gated(self, path: str, window: Sequence[Array]) -> Array:
        return gated(window, *self._of(f"{path}/linear"))
