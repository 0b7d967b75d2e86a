"""The Transformer in float64 NumPy, written from the equations of "Attention Is All You Need", for comparison.

Nothing here comes from the package: sections and equation numbers are the paper's, unless another source is named.
Slow, plain and without caches.

Legend: B batch, T queries, S keys, H heads, D = d_model, V vocabulary.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Array = np.ndarray


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def log_softmax(x: Array) -> Array:
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def attention(q: Array, k: Array, v: Array, allowed: Array | None = None, score: str = "scaled") -> Array:
    """Equation (1): softmax(Q K^T / sqrt(d_k)) V; scores that are not `allowed` are minus infinity.

    score: "dot" leaves the square root out (section 3.2.1).
    """
    scores = q @ np.swapaxes(k, -1, -2) / (np.sqrt(k.shape[-1]) if score == "scaled" else 1)
    if allowed is not None:
        scores = np.where(allowed, scores, -np.inf)
    return softmax(scores) @ v


def additive_attention(q: Array, k: Array, v: Array, vector: Array, allowed: Array | None = None) -> Array:
    """Bahdanau et al. (2015), pair by pair: the score of q_i and k_j is vector . tanh(q_i + k_j)."""
    scores = np.empty((*q.shape[:-1], k.shape[-2]))
    for i in range(q.shape[-2]):
        for j in range(k.shape[-2]):
            scores[..., i, j] = np.tanh(q[..., i, :] + k[..., j, :]) @ vector
    if allowed is not None:
        scores = np.where(allowed, scores, -np.inf)
    return softmax(scores) @ v


def relative_attention(q: Array, k: Array, v: Array, a_k: Array, a_v: Array, allowed: Array | None = None) -> Array:
    """Shaw et al. (2018), equations (3) to (5), query by query; row R of a_k and a_v [2 R + 1, E] is distance 0."""
    reach, out = len(a_k) // 2, np.zeros((*q.shape[:-1], v.shape[-1]))
    allowed = np.broadcast_to(True if allowed is None else allowed, (*q.shape[:-1], k.shape[-2]))
    for i in range(q.shape[-2]):
        w = [min(max(j - i, -reach), reach) + reach for j in range(k.shape[-2])]
        scores = ((k + a_k[w]) @ q[..., i, :, None])[..., 0] / np.sqrt(k.shape[-1])
        shares = softmax(np.where(allowed[..., i, :], scores, -np.inf))
        out[..., i, :] = (shares[..., None, :] @ (v + a_v[w]))[..., 0, :]
    return out


def turn(x: Array) -> Array:
    """Su et al. (2021), equations (14) and (15): row m of x [..., T, K] times the transpose of the matrix R_m."""
    size, out = x.shape[-1], np.empty_like(x)
    for m in range(x.shape[-2]):
        matrix = np.zeros((size, size))
        for i in range(size // 2):
            angle = m * 10000 ** (-2 * i / size)
            sine, cosine = np.sin(angle), np.cos(angle)
            matrix[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = [[cosine, -sine], [sine, cosine]]
        out[..., m, :] = x[..., m, :] @ matrix.T
    return out


def multi_head(
    x: Array,
    memory: Array,
    w_q: Array,
    w_k: Array,
    w_v: Array,
    w_o: Array,
    heads: int,
    allowed: Array | None = None,
    biases: tuple[Array, Array] | None = None,
    relative: tuple[Array, Array] | None = None,
    score: str = "scaled",
    vectors: Array | None = None,
    rotary: bool = False,
) -> Array:
    """Section 3.2.2: Concat(head_1, ..., head_h) W^O, head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V).

    W_i is the i-th block of columns of W. allowed: [B, T, S], or what broadcasts to it. Not in the paper: biases
    (b^Q, b^O), which are added to the queries and to the output; relative (a^K, a^V), as in `relative_attention`;
    vectors, one per head, as in `additive_attention`; score, as in `attention`; rotary, as in `turn`.
    """
    b_q, b_o = biases if biases is not None else (np.zeros(w_q.shape[1]), np.zeros(w_o.shape[1]))
    outputs = []
    for i in range(heads):
        q, k, v, b = (np.split(w, heads, axis=-1)[i] for w in (w_q, w_k, w_v, b_q))
        arrays = (x @ q + b, memory @ k, memory @ v)
        if rotary:
            arrays = (turn(arrays[0]), turn(arrays[1]), arrays[2])
        if vectors is not None:
            outputs.append(additive_attention(*arrays, vectors[i], allowed))
        elif relative:
            outputs.append(relative_attention(*arrays, *relative, allowed))
        else:
            outputs.append(attention(*arrays, allowed, score))
    return np.concatenate(outputs, -1) @ w_o + b_o


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": lambda x: np.maximum(0, x),
    "swish": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2,
}


def feed_forward(x: Array, w_1: Array, b_1: Array, w_2: Array, b_2: Array, activation: str = "relu") -> Array:
    """f(x W_1 + b_1) W_2 + b_2; equation (2) with f(x) = max(0, x)."""
    return ACTIVATIONS[activation](x @ w_1 + b_1) @ w_2 + b_2


def gated_feed_forward(x: Array, w: Array, v: Array, w_2: Array, activation: str) -> Array:
    """Shazeer (2020), equations (5) and (6): (f(x W) * x V) W_2."""
    return (ACTIVATIONS[activation](x @ w) * (x @ v)) @ w_2


def layer_norm(x: Array, gamma: Array, beta: Array, epsilon: float = 1e-6) -> Array:
    """Ba et al. (2016): zero mean and unit variance over the features, then scale and offset."""
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + epsilon) * gamma + beta


def sinusoids(positions: Any, d_model: int) -> Array:
    """Section 3.5: PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i + 1) = cos of the same."""
    positions = np.asarray(positions, np.float64)
    encoding = np.zeros((*positions.shape, d_model))
    for i in range(d_model // 2):
        angle = positions / 10000 ** (2 * i / d_model)
        encoding[..., 2 * i], encoding[..., 2 * i + 1] = np.sin(angle), np.cos(angle)
    return encoding


def sines_then_cosines(positions: Any, d_model: int) -> Array:
    """tensor2tensor's get_timing_signal_1d: n = d_model / 2 sines of pos 10000^(-i / (n - 1)), then their cosines."""
    count = d_model // 2
    angles = np.asarray(positions, np.float64)[..., None] / 10000 ** (np.arange(count) / max(count - 1, 1))
    return np.concatenate([np.sin(angles), np.cos(angles)], -1)


def embed(ids: Array, table: Array) -> Array:
    """Section 3.4: rows times sqrt(d_model). Id 0, padding and the decoder's first symbol, is the zero vector."""
    return np.where((ids == 0)[..., None], 0.0, table[ids] * np.sqrt(table.shape[1]))


def assert_close(got: Any, wanted: Array, relative: float) -> None:
    """Asserts that the largest difference is at most `relative` times the largest wanted number."""
    got = np.asarray(got, np.float64)
    assert got.shape == wanted.shape
    assert np.isfinite(got).all()
    difference = np.abs(got - wanted).max(initial=0.0)
    assert difference <= relative * np.abs(wanted).max(initial=0.0), difference


def weights_of(model: Any) -> dict[str, Array]:
    """A Keras model's weights in float64 by path, without the model's own name before it."""
    return {w.path.removeprefix(f"{model.name}/"): np.asarray(w, np.float64) for w in model.weights}


def randomise(model: Any, seed: int, scale: float = 1.0) -> None:
    """Sets all weights at random, in their order.

    Matrices change the lengths of vectors by `scale`. No bias is 0, no norm's scale is 1.
    """
    rng = np.random.default_rng(seed)
    for w in model.weights:
        size = scale * w.shape[0] ** -0.5 if len(w.shape) == 2 else 0.2
        offset = 1.0 if w.path.endswith("gamma") else 0.0
        w.assign(offset + size * rng.standard_normal(tuple(w.shape)))


@dataclasses.dataclass(frozen=True)
class Transformer:
    """The model of Figure 1 with given weights.

    Args:
        weights: from `weights_of`.
        norm: "post": LayerNorm(x + Sublayer(x)) (section 3.1); "pre": x + Sublayer(LayerNorm(x)), and a last norm;
            "deep": LayerNorm(alpha x + Sublayer(x)).
        num_decoder_layers: 0 means num_layers.
        positions: "sinusoidal", "tensor2tensor", "opennmt", "rotary", "none"; a table in the weights takes precedence.
        score: of attention, "scaled" or "dot"; vectors of additive scores in the weights take precedence.
        norm_epsilon: of layer normalisation.
        activation: of the feed-forward networks; these are gated if the weights have gates.
    """

    weights: Mapping[str, Array]
    num_layers: int
    num_heads: int
    norm: str
    num_decoder_layers: int = 0
    positions: str = "sinusoidal"
    score: str = "scaled"
    norm_epsilon: float = 1e-6
    activation: str = "relu"

    def __call__(self, source: Array, target: Array) -> Array:
        """Logits [B, T, V] of ids [B, S] and [B, T]."""
        return self.decode(np.pad(target, ((0, 0), (1, 0)))[:, :-1], self.encode(source), source)

    def encode(self, source: Array) -> Array:
        x = self._input(source, "source")
        allowed = (source != 0)[:, None, :]
        for i in range(self.num_layers):
            block = f"encoder/layer_{i}"
            x = self._attention(x, f"{block}/around_attention", "self_attention", None, allowed)
            x = self._feed_forward(x, block)
        return self._end(x, "encoder")

    def decode(self, inputs: Array, memory: Array, source: Array) -> Array:
        """Logits [B, T, V]; inputs: the targets moved right by one position."""
        x = self._input(inputs, "target")
        past = np.tril(np.ones((inputs.shape[1], inputs.shape[1]), bool))
        allowed = (source != 0)[:, None, :]
        for i in range(self.num_decoder_layers or self.num_layers):
            block = f"decoder/layer_{i}"
            x = self._attention(x, f"{block}/around_self", "self_attention", None, past)
            x = self._attention(x, f"{block}/around_memory", "memory_attention", memory, allowed)
            x = self._feed_forward(x, block)
        table = self.weights.get("softmax/table", self.weights["target_embedding/table"])
        return self._end(x, "decoder") @ table.T + self.weights.get("output_bias", 0.0)

    def _input(self, ids: Array, side: str) -> Array:
        table = self.weights.get(f"{side}_embedding/table", self.weights["target_embedding/table"])
        learned = self.weights.get(f"{side}_positions/table")
        positions = np.arange(ids.shape[1])
        x = embed(ids, table) + (self.weights.get("source_bias", 0.0) if side == "source" else 0.0)
        if side == "target":
            x[:, 0] += self.weights.get("start_vector", 0.0)
        if learned is not None:
            return x + learned[np.minimum(positions, len(learned) - 1)]
        if self.positions in ("none", "rotary"):
            return x
        made_by = sinusoids if self.positions == "sinusoidal" else sines_then_cosines
        return x + made_by(positions + (self.positions == "opennmt"), table.shape[1])

    def _attention(self, x: Array, around: str, name: str, memory: Array | None, allowed: Array) -> Array:
        matrices = [self.weights[f"{around}/{name}/{kind}"] for kind in ("query", "key", "value", "output")]
        biases, relative = (
            tuple(
                self.weights[f"{around}/{name}/{kind}"] for kind in kinds if f"{around}/{name}/{kind}" in self.weights
            )
            for kinds in (("query_bias", "output_bias"), ("relative_keys", "relative_values"))
        )

        vectors = self.weights.get(f"{around}/{name}/score_vector")

        def sublayer(y: Array) -> Array:
            from_ = y if memory is None else memory
            more = biases or None, relative or None, self.score, vectors, self.positions == "rotary" and memory is None
            return multi_head(y, from_, *matrices, self.num_heads, allowed, *more)

        return self._residual(x, around, sublayer)

    def _feed_forward(self, x: Array, block: str) -> Array:
        around = f"{block}/around_feed_forward"
        gated = f"{around}/feed_forward/gate" in self.weights
        names = ("kernel_1", "gate", "kernel_2") if gated else ("kernel_1", "bias_1", "kernel_2", "bias_2")
        arrays = [self.weights[f"{around}/feed_forward/{name}"] for name in names]
        network = gated_feed_forward if gated else feed_forward
        return self._residual(x, around, lambda y: network(y, *arrays, activation=self.activation))

    def _residual(self, x: Array, around: str, sublayer: Callable[[Array], Array]) -> Array:
        if self.norm == "pre":
            return x + sublayer(self._layer_norm(x, f"{around}/layer_norm"))
        return self._layer_norm(self._alpha(around) * x + sublayer(x), f"{around}/layer_norm")

    def _alpha(self, around: str) -> float:
        """Of DeepNorm (Wang et al., 2022, Figure 2) with N encoder and M decoder layers; 1 with "post"."""
        n, m = self.num_layers, self.num_decoder_layers or self.num_layers
        if self.norm == "post":
            return 1.0
        return float(0.81 * (n**4 * m) ** (1 / 16) if around.startswith("encoder") else (3 * m) ** (1 / 4))

    def _end(self, x: Array, stack: str) -> Array:
        return self._layer_norm(x, f"{stack}/final_norm") if self.norm == "pre" else x

    def _layer_norm(self, x: Array, path: str) -> Array:
        return layer_norm(x, self.weights[f"{path}/gamma"], self.weights[f"{path}/beta"], self.norm_epsilon)
