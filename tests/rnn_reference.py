"""The LSTM encoder-decoder in float64 NumPy, one symbol of one sentence at a time, for comparison.

Nothing here comes from the package. Hochreiter and Schmidhuber (1997) with forget gates; Luong et al. (2015), equations
5, 7 and 8 and section 3.3; Bahdanau et al. (2015), appendix A.1.2.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from tests.reference import softmax

Array = np.ndarray


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def cell(w: Array, b: Array, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
    """[i f g o] = W [x; h] + b; c' = sigmoid(f + 1) c + sigmoid(i) tanh(g); h' = sigmoid(o) tanh(c')."""
    i, f, g, o = np.split(np.concatenate([x, h]) @ w + b, 4)
    c = sigmoid(f + 1) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def score(q: Array, m: Array, weights: Mapping[str, Array]) -> float:
    """ "general": q . U m; "additive", where there are W and v: v . tanh(W q + U m)."""
    if "vector" in weights:
        return float(np.tanh(q @ weights["query/kernel"] + m @ weights["keys/kernel"]) @ weights["vector"][:, 0])
    return float(q @ (m @ weights["keys/kernel"]))


def attend(q: Array, memory: Array, weights: Mapping[str, Array]) -> tuple[Array, Array]:
    """tanh(W_c [a; q]) and the weights of a's sum over `memory` [S, units]."""
    shares = softmax(np.array([score(q, m, weights) for m in memory]))
    return np.tanh(np.concatenate([shares @ memory, q]) @ weights["combined/kernel"]), shares


@dataclasses.dataclass(frozen=True)
class Rnn:
    """The model with given weights.

    Args:
        weights: from `reference.weights_of`.
    """

    weights: Mapping[str, Array]
    num_layers: int
    units: int

    def __call__(self, source: Array, target: Array) -> tuple[Array, Array]:
        """Logits [T, V] and weights [T, S] of one pair, ids [S] and [T] without padding."""
        states = [(np.zeros(self.units), np.zeros(self.units)) for _ in range(self.num_layers)]
        memory = np.array([self._layers("encoder", self._embedded(i, "source"), None, states) for i in source])
        attention = {
            path.removeprefix("decoder/attention/"): w
            for path, w in self.weights.items()
            if "decoder/attention/" in path
        }
        s = np.zeros(self.units)
        logits, maps = [], []
        for before in [0, *target[:-1]]:
            s, shares = attend(self._layers("decoder", self._embedded(before, "target"), s, states), memory, attention)
            table = self.weights.get("softmax/table", self.weights["target_embedding/table"])
            logits.append(table @ s + self.weights["softmax_bias"])
            maps.append(shares)
        return np.array(logits), np.array(maps)

    def _embedded(self, symbol: int, side: str) -> Array:
        table = self.weights.get(f"{side}_embedding/table", self.weights["target_embedding/table"])
        return table[symbol] * np.sqrt(self.units) if symbol else np.zeros(self.units)

    def _layers(self, side: str, x: Array, s: Array | None, states: list[tuple[Array, Array]]) -> Array:
        """One symbol through all layers, whose `states` change; returns the last one's h."""
        for i in range(self.num_layers):
            path = f"{side}/layer_{i}"
            parts = [self.weights[f"{path}/kernel"]]
            if s is not None and i == 0 and "decoder/feed/kernel" in self.weights:
                x = np.concatenate([x, s])
                parts.append(self.weights["decoder/feed/kernel"])
            parts.append(self.weights[f"{path}/recurrent_kernel"])
            states[i] = cell(np.concatenate(parts), self.weights[f"{path}/bias"], x, *states[i])
            x = states[i][0]
        return x
