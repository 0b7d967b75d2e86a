"""tensor2tensor's Transformer in float64 NumPy, on imported weights: the reference for imports.

Legend: B batch, S source, T target, D = d_model, H heads, V vocabulary.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from t2t_lite.importers.imported import Imported
from tests.reference import Array, embed, feed_forward, layer_norm, softmax


def signal(length: int, d_model: int) -> Array:
    """tensor2tensor's get_timing_signal_1d: sines of all rates, then cosines; the last rate is 1e-4."""
    rates = np.exp(-np.arange(d_model // 2) * (math.log(10000.0) / max(d_model // 2 - 1, 1)))
    angles = np.arange(length)[:, None] * rates[None, :]
    return np.pad(np.concatenate([np.sin(angles), np.cos(angles)], 1), ((0, 0), (0, d_model % 2)))


class Forward:
    """A call with int [B, S] and [B, T], padded with 0, returns logits [B, T, V]."""

    def __init__(self, imported: Imported) -> None:
        self.described = imported.description
        self.weights = {path.removeprefix("transformer/"): np.float64(w) for path, w in imported.weights.items()}

    def __call__(self, source: Array, target: Array) -> Array:
        weights, described = self.weights, self.described
        target_table = weights["target_embedding/table"]
        source_table = weights.get("source_embedding/table", target_table)
        x = embed(source, source_table) + self._positions("source", source.shape[1])
        if described.source_vector:
            x = x + weights["source_bias"]
        real = (source != 0)[:, None, None, :]
        for layer in range(described.num_layers):
            x = self._around(
                f"encoder/layer_{layer}/around_attention", x, self._attention("self_attention", None, real)
            )
            x = self._around(f"encoder/layer_{layer}/around_feed_forward", x, self._feed_forward)
        memory = self._final("encoder", x)
        shifted = np.pad(target[:, :-1], ((0, 0), (1, 0)))
        y = embed(shifted, target_table) + self._positions("target", target.shape[1])
        causal = np.tril(np.ones((target.shape[1],) * 2, bool))
        for layer in range(described.num_decoder_layers):
            start = f"decoder/layer_{layer}"
            y = self._around(f"{start}/around_self", y, self._attention("self_attention", None, causal))
            y = self._around(f"{start}/around_memory", y, self._attention("memory_attention", memory, real))
            y = self._around(f"{start}/around_feed_forward", y, self._feed_forward)
        return self._final("decoder", y) @ weights.get("softmax/table", target_table).T

    def _positions(self, side: str, length: int) -> Array:
        if self.described.positions == "learned":
            table = self.weights[f"{side}_positions/table"]
            return np.pad(table, ((0, max(length - len(table), 0)), (0, 0)))[:length]  # zeros follow
        return signal(length, self.described.d_model) * (self.described.positions == "tensor2tensor")

    def _around(self, start: str, x: Array, sublayer: Any) -> Array:
        gamma, beta = (self.weights[f"{start}/layer_norm/{name}"] for name in ("gamma", "beta"))
        if self.described.norm == "pre":
            return x + sublayer(start, layer_norm(x, gamma, beta))
        return layer_norm(x + sublayer(start, x), gamma, beta)

    def _final(self, stack: str, x: Array) -> Array:
        if self.described.norm == "post":
            return x
        return layer_norm(x, *(self.weights[f"{stack}/final_norm/{name}"] for name in ("gamma", "beta")))

    def _feed_forward(self, start: str, x: Array) -> Array:
        names = ("kernel_1", "bias_1", "kernel_2", "bias_2")
        return feed_forward(x, *(self.weights[f"{start}/feed_forward/{name}"] for name in names))

    def _attention(self, name: str, memory: Array | None, allowed: Array) -> Any:
        """Scaled dot-product attention, with Shaw et al.'s vectors of clipped distances if the weights have them."""

        def attend(start: str, x: Array) -> Array:
            weights = {key: self.weights.get(f"{start}/{name}/{key}") for key in (*_MATRICES, *_RELATIVE)}
            from_ = x if memory is None else memory
            q, k, v = (self._heads(y @ weights[w]) for y, w in zip((x, from_, from_), _MATRICES, strict=False))
            q = q / math.sqrt(q.shape[-1])
            scores = np.einsum("bhtk,bhsk->bhts", q, k)
            reach = self.described.max_relative_position
            distance = np.clip(np.arange(k.shape[2])[None] - np.arange(q.shape[2])[:, None], -reach, reach) + reach
            if weights["relative_keys"] is not None:
                scores += np.einsum("bhtk,tsk->bhts", q, weights["relative_keys"][distance])
            share = softmax(np.where(allowed, scores, -1e9))
            heads = np.einsum("bhts,bhsv->bhtv", share, v)
            if weights["relative_values"] is not None:
                heads += np.einsum("bhts,tsv->bhtv", share, weights["relative_values"][distance])
            return np.concatenate(list(np.moveaxis(heads, 1, 0)), -1) @ weights["output"]

        return attend

    def _heads(self, x: Array) -> Array:
        return np.stack(np.split(x, self.described.num_heads, -1), 1)


_MATRICES = ("query", "key", "value", "output")
_RELATIVE = ("relative_keys", "relative_values")
