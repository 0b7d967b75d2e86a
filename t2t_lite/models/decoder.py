"""The decoder stack (section 3.1, right half of Figure 1), whole and one position at a time.

Legend: B batch, T target length, S source length, H heads, C capacity of a cache, R = B * beam rows of a step.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from t2t_lite.layers.composite import Composite
from t2t_lite.layers.dropout import fold_in
from t2t_lite.models.sublayers import Sublayers


class DecoderLayer(Composite, keras.layers.Layer):
    """Masked self-attention, attention over the encoder's output, feed-forward network.

    Args:
        sublayers: makes its parts.

    Call arguments:
        x: [B, T, d_model].
        memory: [B, S, d_model], the encoder's output.
        self_bias: float32, broadcastable to [B, H, T, T], or a `Window`; hides the future.
        memory_bias: float32, broadcastable to [B, H, T, S]; hides padding.
        seed: int32 [2], or None for inference.

    Returns:
        [B, T, d_model].
    """

    def __init__(self, sublayers: Sublayers, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.self_attention = sublayers.attention("self_attention")
        self.memory_attention = sublayers.attention("memory_attention")
        self.feed_forward = sublayers.feed_forward()
        self.around_self = sublayers.residual("around_self")
        self.around_memory = sublayers.residual("around_memory")
        self.around_feed_forward = sublayers.residual("around_feed_forward")

    def call(self, x: Any, memory: Any, self_bias: Any = None, memory_bias: Any = None, seed: Any = None) -> Any:
        x = self.around_self(
            x,
            sublayer=lambda y: self.self_attention(y, y, bias=self_bias, seed=fold_in(seed, 0)),
            seed=fold_in(seed, 1),
        )
        x = self.around_memory(
            x,
            sublayer=lambda y: self.memory_attention(y, memory, bias=memory_bias, seed=fold_in(seed, 2)),
            seed=fold_in(seed, 3),
        )
        return self.around_feed_forward(
            x, sublayer=lambda y: self.feed_forward(y, seed=fold_in(seed, 4)), seed=fold_in(seed, 5)
        )

    def step(
        self,
        x: Any,
        index: Any,
        self_cache: tuple[Any, Any],
        memory_cache: tuple[Any, Any],
        self_bias: Any,
        memory_bias: Any,
    ) -> tuple[Any, tuple[Any, Any]]:
        """One position of every beam: equal to column `index` of `call`.

        Args:
            x: [B, beam, d_model].
            index: int scalar, the position, below C.
            self_cache: keys [R, H, C, d_k] and values [R, H, C, d_v] of the positions before.
            memory_cache: keys [B, H, S, d_k] and values [B, H, S, d_v]; beams share them.
            self_bias: float32 [C], hides the future.
            memory_bias: float32 [B, 1, 1, S].

        Returns:
            [B, beam, d_model] and the self_cache with this position in it.
        """
        shape = ops.shape(x)
        cache = self_cache

        def attend_to_past(y: Any) -> Any:
            nonlocal cache
            rows = ops.reshape(y, (shape[0] * shape[1], 1, y.shape[-1]))
            cache = _write(self_cache, index, self.self_attention.project_memory(rows))
            return ops.reshape(self.self_attention.attend(rows, *cache, self_bias), shape)

        x = self.around_self(x, sublayer=attend_to_past)
        x = self.around_memory(x, sublayer=lambda y: self.memory_attention.attend(y, *memory_cache, memory_bias))
        return self.around_feed_forward(x, sublayer=self.feed_forward), cache


def _write(cache: tuple[Any, Any], index: Any, new: tuple[Any, Any]) -> tuple[Any, Any]:
    here = (ops.arange(ops.shape(cache[0])[2]) == index)[:, None]
    return ops.where(here, new[0], cache[0]), ops.where(here, new[1], cache[1])


class Decoder(Composite, keras.layers.Layer):
    """N decoder layers; pre-norm stacks end in a layer normalisation of their own.

    Args:
        num_layers: N.
        sublayers: makes the parts of each `DecoderLayer`.

    Call arguments and result: as `DecoderLayer`.
    """

    def __init__(self, num_layers: int, sublayers: Sublayers, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.blocks = [DecoderLayer(sublayers, name=f"layer_{i}") for i in range(num_layers)]
        self.final_norm = sublayers.final_norm()

    def call(self, x: Any, memory: Any, self_bias: Any = None, memory_bias: Any = None, seed: Any = None) -> Any:
        for i, block in enumerate(self.blocks):
            x = block(x, memory, self_bias=self_bias, memory_bias=memory_bias, seed=fold_in(seed, i))
        return self.final_norm(x) if self.final_norm else x

    def memory_caches(self, memory: Any) -> list[tuple[Any, Any]]:
        """Each layer's keys and values of `memory` [B, S, d_model], computed once per sentence."""
        return [block.memory_attention.project_memory(memory) for block in self.blocks]

    def empty_caches(self, rows: Any, capacity: Any, dtype: str) -> list[tuple[Any, Any]]:
        """Each layer's self_cache for `rows` hypotheses of up to `capacity` positions, filled with zeros."""
        caches = []
        for block in self.blocks:
            attention = block.self_attention
            shape = (rows, attention.num_heads, capacity)
            caches.append(
                (ops.zeros((*shape, attention.d_k), dtype=dtype), ops.zeros((*shape, attention.d_v), dtype=dtype))
            )
        return caches

    def step(
        self,
        x: Any,
        index: Any,
        self_caches: list[tuple[Any, Any]],
        memory_caches: list[tuple[Any, Any]],
        self_bias: Any,
        memory_bias: Any,
    ) -> tuple[Any, list[tuple[Any, Any]]]:
        """One position through all layers; arguments as `DecoderLayer.step`, one cache per layer."""
        written = []
        for block, self_cache, memory_cache in zip(self.blocks, self_caches, memory_caches, strict=True):
            x, cache = block.step(x, index, self_cache, memory_cache, self_bias, memory_bias)
            written.append(cache)
        return (self.final_norm(x) if self.final_norm else x), written
