"""The decoder stack (section 3.1, right half of Figure 1), whole and one position at a time.

Legend: B batch, T target length, S source length, H heads, K hypotheses of a sentence, N keys of all that came before.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import keras

from t2t_lite.layers.attention import Update
from t2t_lite.layers.composite import Composite
from t2t_lite.layers.dropout import fold_in
from t2t_lite.layers.step_attention import Product
from t2t_lite.models.sublayers import Sublayers, apply_layer


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
            sublayer=lambda y: self.self_attention(y, bias=self_bias, seed=fold_in(seed, 0)),
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

    def step(self, dtype: str, product: Product | None) -> Callable[[Any, Update, tuple[Any, Any], Any, Any], Any]:
        """Returns the function of one position of every hypothesis, equal to that column of `call`.

        Its arguments:

        x: [B, K, d_model] in `dtype`.
        update: is told the keys [B, K, H, d_k] and values [B, K, H, d_v] of this position, and returns all that there
            are to attend to, [B, H, N, d_k] and [B, H, N, d_v].
        memory_cache: keys [B, H, S, d_k] and values [B, H, S, d_v]; hypotheses share them.
        self_bias: float32 [B, 1, K, N], shows each hypothesis its own past and present.
        memory_bias: float32 [B, 1, 1, S].

        It returns [B, K, d_model].
        """
        attend_to_past = self.self_attention.self_step(dtype, product)
        attend_to_memory = self.memory_attention.memory_step(dtype, product)
        feed_forward = self.feed_forward.step(dtype)
        around_self, around_memory = self.around_self.step(), self.around_memory.step()
        around_feed_forward = self.around_feed_forward.step()

        def step(x: Any, update: Update, memory_cache: tuple[Any, Any], self_bias: Any, memory_bias: Any) -> Any:
            # Names as in `call`, for those who profile.
            with keras.name_scope("around_self"):
                x = around_self(x, lambda y: attend_to_past(y, update, self_bias))
            with keras.name_scope("around_memory"):
                x = around_memory(x, lambda y: attend_to_memory(y, *memory_cache, memory_bias))
            with keras.name_scope("around_feed_forward"):
                return around_feed_forward(x, feed_forward)

        return step


class Decoder(Composite, keras.layers.Layer):
    """N decoder layers; pre-norm stacks end in a layer normalisation of their own.

    Args:
        num_layers: N.
        sublayers: makes the parts of each `DecoderLayer`.
        remat: training keeps the inputs of layers only, and computes the rest again for the gradients.

    Call arguments and result: as `DecoderLayer`.
    """

    def __init__(self, num_layers: int, sublayers: Sublayers, remat: bool, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.remat = remat
        self.blocks = [DecoderLayer(sublayers, name=f"layer_{i}") for i in range(num_layers)]
        self.final_norm = sublayers.final_norm()

    def call(self, x: Any, memory: Any, self_bias: Any = None, memory_bias: Any = None, seed: Any = None) -> Any:
        biases = {"self_bias": self_bias, "memory_bias": memory_bias}
        for i, block in enumerate(self.blocks):
            x = apply_layer(block, x, memory, remat=self.remat, **biases, seed=fold_in(seed, i))
        return self.final_norm(x) if self.final_norm else x

    def memory_caches(self, memory: Any) -> list[tuple[Any, Any]]:
        """Each layer's keys and values of `memory` [B, S, d_model], computed once per sentence."""
        return [block.memory_attention.project_memory(memory) for block in self.blocks]

    def step(self, dtype: str, product: Product | None) -> Callable[[Any, Any, list[tuple[Any, Any]], Any, Any], Any]:
        """Returns the function of one position through all layers; its arguments as those of `DecoderLayer.step`.

        The `update` of `past` is that of a layer, but for the number of the layer in front, and there is a memory cache
        for each layer.
        """
        layers = [block.step(dtype, product) for block in self.blocks]
        final_norm = self.final_norm.step() if self.final_norm else None

        def step(x: Any, past: Any, memory_caches: list[tuple[Any, Any]], self_bias: Any, memory_bias: Any) -> Any:
            for i, layer in enumerate(layers):
                x = layer(x, functools.partial(past.update, i), memory_caches[i], self_bias, memory_bias)
            return final_norm(x) if final_norm else x

        return step
