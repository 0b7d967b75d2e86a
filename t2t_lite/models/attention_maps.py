"""The attention weights of a Transformer, to be looked at (the paper's Figures 3-5).

Legend: B batch, L layers, H heads, S source length, T target length.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from keras import ops

from t2t_lite.layers.attention import MultiHeadAttention
from t2t_lite.models.transformer import Transformer


def attention_maps(model: Transformer, batch: Mapping[str, Any]) -> dict[str, Any]:
    """Runs `model` over pairs, the target given (teacher forcing), and returns the weights of all its attention.

    Works eagerly and while a graph is traced; each row of weights sums to 1, and padding of the source gets 0.

    Args:
        batch: "source" int [B, S] and "target" int [B, T], as `Transformer` takes them.

    Returns:
        float32 tensors. Row t of "decoder" and "memory" is the step that produces target t; the decoder's input at
        column j is target j - 1, and the start symbol at column 0.

        "encoder": [B, L, H, S, S], "decoder": [B, L, H, T, T], "memory": [B, L, H, T, S].
    """
    layers = {
        "encoder": [block.self_attention for block in model.encoder.blocks],
        "decoder": [block.self_attention for block in model.decoder.blocks],
        "memory": [block.memory_attention for block in model.decoder.blocks],
    }
    with contextlib.ExitStack() as stack:
        seen = {name: stack.enter_context(_watched(attentions)) for name, attentions in layers.items()}
        model(batch)
    return {name: ops.stack(weights, axis=1) for name, weights in seen.items()}


@contextlib.contextmanager
def _watched(layers: Sequence[MultiHeadAttention]) -> Iterator[list[Any]]:
    """Gives a list that fills with the weights [B, H, T, S] of each layer, in the order of their calls."""
    weights: list[Any] = []
    try:
        for layer in layers:
            layer.watch = weights.append
        yield weights
    finally:
        for layer in layers:
            layer.watch = None
