"""The LSTM encoder-decoders in float64 NumPy, one symbol of one sentence at a time, for comparison.

Nothing here comes from the package. Sources: Hochreiter and Schmidhuber (1997) with forget gates; Luong et al. (2015),
equations 5, 7 and 8 and section 3.3; Bahdanau et al. (2015), appendix A.1.2; Vinyals et al. (2015), section 2.1; Wu et
al. (2016), section 3; Shazeer et al. (2017), appendix E; tensorflow/nmt for `gnmt_v2` and `normed_additive`.
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


def score(kind: str, q: Array, m: Array, weights: Mapping[str, Array]) -> float:
    """The score of one query and one memory vector; the equations are in the docstring of RnnAttention."""
    if kind == "dot":
        return float(q @ m)
    key = m @ weights["keys/kernel"]
    if kind == "general":
        return float(q @ key)
    query, v = q @ weights["query/kernel"], weights["vector"][:, 0]
    if kind == "product":
        return float(v @ (np.tanh(query) * np.tanh(key)))
    if kind == "normed_additive":
        return float(weights["gain"][0] / np.linalg.norm(v) * (v @ np.tanh(query + key + weights["bias"])))
    return float(v @ np.tanh(query + key))


def attend(kind: str, result: str, q: Array, memory: Array, weights: Mapping[str, Array]) -> tuple[Array, Array]:
    """Returns what `result` names, made from the context of q in `memory` [S, units], and the attention weights."""
    shares = softmax(np.array([score(kind, q, m, weights) for m in memory]))
    context = shares @ memory
    if result == "context":
        return context, shares
    both = np.concatenate([context, q])
    if result == "concat":
        return both, shares
    combined = both @ weights["combined/kernel"]
    return np.tanh(combined) if result == "tanh" else combined, shares


@dataclasses.dataclass(frozen=True)
class Rnn:
    """The model with given weights.

    Args:
        weights: from `reference.weights_of`.
        units: d_model.
        encoder, wiring, kind: as in a recipe; kind is its attention_score.
    """

    weights: Mapping[str, Array]
    num_layers: int
    units: int
    encoder: str = "uni"
    wiring: str = "top"
    kind: str = "general"

    def __call__(self, source: Array, target: Array) -> tuple[Array, Array]:
        """Logits [T, V] and weights [T, S] of one pair, ids [S] and [T] without padding."""
        memory, states = self.encode(source)
        attention = {
            path.removeprefix("decoder/attention/"): w
            for path, w in self.weights.items()
            if "decoder/attention/" in path
        }
        step = self._gnmt if self.wiring.startswith("gnmt") else self._top
        given = np.zeros(1)  # output of attention at the last step; at first it stands for zeros
        logits, maps = [], []
        for before in [0, *target[:-1]]:
            hidden, given, shares = step(self._embedded(before, "target"), given, states, memory, attention)
            table = self.weights.get("softmax/table", self.weights["target_embedding/table"])
            logits.append(table @ hidden + self.weights.get("softmax_bias", 0.0))
            maps.append(shares)
        return np.array(logits), np.array(maps)

    def encode(self, source: Array) -> tuple[Array, list[tuple[Array, Array]]]:
        """Returns the memory [S, units or twice that] of one sentence, and the first states of the decoder."""
        x = np.array([self._embedded(symbol, "source") for symbol in source])
        if self.encoder == "bi":
            stacks = [self._stack(x, name, "bi" if name == "backward" else "") for name in ("layer", "backward")]
            (forward, ends), (backward, others) = stacks
            both = [
                tuple(np.concatenate(parts) for parts in zip(*pair, strict=True))
                for pair in zip(ends, others, strict=True)
            ]
            return np.concatenate([forward, backward], 1), both  # type: ignore[return-value]
        return self._stack(x, "layer", self.encoder)

    def _stack(self, x: Array, name: str, order: str) -> tuple[Array, list[tuple[Array, Array]]]:
        ends = []
        for i in range(self.num_layers):
            turned = order in ("reversed", "bi") or (order == "interleaved" and i % 2 == 1)
            y, end = self._run(f"encoder/{name}_{i}", x, turned)
            if order == "gnmt" and i == 0:
                backward, end = self._run("encoder/backward_0", x, True)
                y = np.concatenate([y, backward], 1)
            x = x + y if order == "gnmt" and i >= 2 else y
            ends.append(end)
        return x, ends

    def _run(self, path: str, x: Array, turned: bool) -> tuple[Array, tuple[Array, Array]]:
        """One LSTM over a sentence [S, I]: its outputs [S, units] and its last state."""
        units = len(self.weights[f"{path}/recurrent_kernel"])
        state = (np.zeros(units), np.zeros(units))
        outputs = []
        for x_t in x[::-1] if turned else x:
            state = self._cell(path, x_t, state)
            outputs.append(state[0])
        return np.array(outputs[::-1] if turned else outputs), state

    def _cell(self, path: str, x: Array, state: tuple[Array, Array], fed: Array | None = None) -> tuple[Array, Array]:
        parts = [self.weights[f"{path}/kernel"], self.weights[f"{path}/recurrent_kernel"]]
        if fed is not None and "decoder/feed/kernel" in self.weights:
            feed = self.weights["decoder/feed/kernel"]
            x = np.concatenate([x, np.broadcast_to(fed, len(feed))])
            parts.insert(1, feed)
        return cell(np.concatenate(parts), self.weights[f"{path}/bias"], x, *state)

    def _top(
        self, x: Array, given: Array, states: list[tuple[Array, Array]], memory: Array, attention: Mapping[str, Array]
    ) -> tuple[Array, Array, Array]:
        """Returns the vector to predict from, the output of attention and its weights; changes `states`."""
        for i in range(self.num_layers):
            states[i] = self._cell(f"decoder/layer_{i}", x, states[i], given if i == 0 else None)
            x = states[i][0]
        result = {"top": "tanh", "attention_wrapper": "linear", "vinyals": "concat"}[self.wiring]
        vector, shares = attend(self.kind, result, x, memory, attention)
        return vector, vector, shares

    def _gnmt(
        self, x: Array, given: Array, states: list[tuple[Array, Array]], memory: Array, attention: Mapping[str, Array]
    ) -> tuple[Array, Array, Array]:
        states[0] = self._cell("decoder/layer_0", x, states[0], given)
        context, shares = attend(self.kind, "context", states[0][0], memory, attention)
        above = context if self.wiring == "gnmt_v2" else np.broadcast_to(given, len(context))
        x = states[0][0]
        for i in range(1, self.num_layers):
            states[i] = self._cell(f"decoder/layer_{i}", np.concatenate([x, above]), states[i])
            x = x + states[i][0] if i >= 2 else states[i][0]
        return x, context, shares

    def _embedded(self, symbol: int, side: str) -> Array:
        table = self.weights.get(f"{side}_embedding/table", self.weights["target_embedding/table"])
        return table[symbol] * np.sqrt(self.units) if symbol else np.zeros(self.units)
