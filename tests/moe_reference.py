"""Mixtures of experts in float64 NumPy, one position at a time, for comparison.

Nothing here comes from the package. Sources: Shazeer et al. (2017), section 2, appendices A and E; Lepikhin et al.
(2020) for the Transformer.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import numpy as np

from tests import reference, rnn_reference

Array = np.ndarray


def gates(x: Array, w_gate: Array, w_noise: Array, k: int, z: Array | None = None) -> tuple[Array, Array]:
    """Returns G(x) and P(x) of one position, [n] each; z is the noise before scaling, None means no noise."""
    clean = x @ w_gate
    scale = np.log1p(np.exp(x @ w_noise)) + 1e-2
    noisy = clean if z is None else clean + z * scale
    best = np.argsort(-noisy, kind="stable")[:k]
    shares = np.zeros(len(clean))
    shares[best] = reference.softmax(noisy[best])
    if z is None or k == len(clean):
        return shares, (shares > 0).astype(float)
    load = np.zeros(len(clean))
    for i in range(len(clean)):
        others = np.sort(np.delete(noisy, i))[::-1]
        load[i] = 0.5 * (1 + math.erf((clean[i] - others[k - 1]) / scale[i] / math.sqrt(2)))
    return shares, load


def cv_squared(x: Array) -> float:
    return float(x.var() / x.mean() ** 2)


def mixture(x: Array, weights: Mapping[str, Array], k: int, z: Array | None = None) -> Array:
    """y = sum of G(x)_i E_i(x) for x [D]; weights as the layer names them."""
    shares, _ = gates(x, weights["gating/kernel"], weights["gating/noise_kernel"], k, z)
    experts = zip(shares, weights["kernels_1"], weights["kernels_2"], strict=True)
    return np.sum([share * (np.maximum(x @ w, 0) @ v) for share, w, v in experts if share > 0], axis=0)


def _below(weights: Mapping[str, Array], path: str) -> dict[str, Array]:
    return {name.removeprefix(f"{path}/"): w for name, w in weights.items() if name.startswith(f"{path}/")}


@dataclasses.dataclass(frozen=True)
class TransformerMoe(reference.Transformer):
    """`reference.Transformer` with experts in the blocks that have weights of experts; k experts for each position."""

    k: int = 2

    def _feed_forward(self, x: Array, block: str) -> Array:
        weights = _below(self.weights, f"{block}/around_feed_forward/experts")
        if not weights:
            return super()._feed_forward(x, block)

        def sublayer(y: Array) -> Array:
            return np.apply_along_axis(mixture, -1, y, weights, self.k)

        return self._residual(x, f"{block}/around_feed_forward", sublayer)


@dataclasses.dataclass(frozen=True)
class Moe:
    """The model of appendix E with given weights; k experts for each position."""

    weights: Mapping[str, Array]
    k: int = 2

    def __call__(self, source: Array, target: Array) -> Array:
        """Logits [T, V] of one pair, ids [S] and [T] without padding."""
        memory, states = self.encode(source)
        attention = _below(self.weights, "decoder/attention")
        table = self.weights["target_embedding/table"]
        context, logits = np.zeros(memory.shape[1]), []
        for before in [0, *target[:-1]]:
            x = self._embedded(before)
            fed = context @ self.weights["decoder/feed/kernel"]
            states[0] = self._cell("decoder/layer_0", x, states[0], fed)
            context, _ = rnn_reference.attend("product", "context", states[0][0], memory, attention)
            x = x + states[0][0]
            x = x + self._experts("decoder", x)
            states[1] = self._cell("decoder/layer_1", x, states[1])
            logits.append(table @ (x + states[1][0]))
        return np.array(logits)

    def encode(self, source: Array) -> tuple[Array, list[tuple[Array, Array]]]:
        x, ends = np.array([self._embedded(symbol) for symbol in source]), []
        for i in range(3):
            units, outputs = self.weights[f"encoder/layer_{i}/projection"].shape
            state = np.zeros(outputs), np.zeros(units)
            rows = []
            for x_t in x:
                state = self._cell(f"encoder/layer_{i}", x_t, state)
                rows.append(state[0])
            x = x + np.array(rows)
            ends.append(state)
            if i == 1:
                x = x + np.array([self._experts("encoder", x_t) for x_t in x])
        return x, ends[1:]

    def _cell(self, path: str, x: Array, state: tuple[Array, Array], fed: Array | float = 0.0) -> tuple[Array, Array]:
        w = np.concatenate([self.weights[f"{path}/kernel"], self.weights[f"{path}/recurrent_kernel"]])
        h, c = rnn_reference.cell(w, self.weights[f"{path}/bias"] + fed, x, *state)
        return h @ self.weights[f"{path}/projection"], c

    def _experts(self, side: str, x: Array) -> Array:
        return rnn_reference.sigmoid(mixture(x, _below(self.weights, f"{side}/experts"), self.k))

    def _embedded(self, symbol: int) -> Array:
        return reference.embed(np.array([[symbol]]), self.weights["target_embedding/table"])[0, 0]
