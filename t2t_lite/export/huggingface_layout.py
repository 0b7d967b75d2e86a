"""Tensors of a MarianMT model by name, and the weights of a `Transformer` that they are; for import and export.

Matrices are [outputs, inputs] there; heads are blocks of rows. Positions are sines, then cosines there; here they
alternate, so the columns of all weights have another order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

SOURCE, TARGET, SOFTMAX = (f"transformer/{name}/table" for name in ("source_embedding", "target_embedding", "softmax"))
BIAS, START = "transformer/output_bias", "transformer/start_vector"
LOGITS_BIAS = "final_logits_bias"

# (stack, sub-layer there) -> (the residual connection here, the layer in it).
_ATTENTION = {
    ("encoder", "self_attn"): ("around_attention", "self_attention"),
    ("decoder", "self_attn"): ("around_self", "self_attention"),
    ("decoder", "encoder_attn"): ("around_memory", "memory_attention"),
}
_KINDS = {"weight": "", "bias": "_bias"}
_IN_ATTENTION = {
    f"{letter}_proj.{kind}": f"{name}{end}"
    for letter, name in {"q": "query", "k": "key", "v": "value", "out": "output"}.items()
    for kind, end in _KINDS.items()
}
_IN_FEED_FORWARD = {"fc1.weight": "kernel_1", "fc1.bias": "bias_1", "fc2.weight": "kernel_2", "fc2.bias": "bias_2"}
_NORM = {"weight": "gamma", "bias": "beta"}
# Last part of a path -> its axes: m of the model's columns, h of all heads, f of the inner size, v of pieces.
AXES = {
    **dict.fromkeys(("query", "key", "value"), "mh"),
    **dict.fromkeys(("query_bias", "key_bias", "value_bias"), "h"),
    **dict.fromkeys(("output_bias", "bias_2", "gamma", "beta"), "m"),
    "output": "hm",
    "kernel_1": "mf",
    "bias_1": "f",
    "kernel_2": "fm",
    "table": "vm",
}


def places(layers: Mapping[str, int], *, shared: bool, tied: bool) -> dict[str, str]:
    """Returns the path here of each tensor that a file may hold; of several names for one path one must be there.

    Args:
        layers: of "encoder" and "decoder".
        shared: source and target have one table.
        tied: the softmax has the target's.
    """
    found: dict[str, str] = {}
    for stack, count in layers.items():
        for layer in range(count):
            there, here = f"model.{stack}.layers.{layer}.", f"transformer/{stack}/layer_{layer}/"
            parts = {("final_layer_norm", ""): ("around_feed_forward", "feed_forward", _IN_FEED_FORWARD)}
            for (of_stack, part), (around, inside) in _ATTENTION.items():
                if of_stack == stack:
                    parts[f"{part}_layer_norm", f"{part}."] = (around, inside, _IN_ATTENTION)
            for (norm, part), (around, inside, within) in parts.items():
                found |= {f"{there}{part}{name}": f"{here}{around}/{inside}/{path}" for name, path in within.items()}
                found |= {f"{there}{norm}.{name}": f"{here}{around}/layer_norm/{path}" for name, path in _NORM.items()}
    if shared:
        found["model.shared.weight"] = TARGET
    found["model.encoder.embed_tokens.weight"] = TARGET if shared else SOURCE
    found["model.decoder.embed_tokens.weight"] = TARGET
    found["lm_head.weight"] = TARGET if tied else SOFTMAX
    found[LOGITS_BIAS] = BIAS
    return found


def to_here(path: str, array: Any, rows: list[int] | None) -> Any:
    """Returns a tensor with axes, pieces and columns in the order here.

    Args:
        path: here.
        rows: of a tensor with a row for each piece: the id there of each id here.
    """
    if path == BIAS:
        return array[0][rows]
    axes = AXES[path.rpartition("/")[2]]
    return _take_columns(axes, array.T if rows is None else array[rows], lambda order: order)


def to_there(path: str, array: Any, rows: list[int] | None) -> Any:
    """Returns a weight as the tensor that `to_here` would make it from."""
    ids = None if rows is None else np.argsort(rows)
    if path == BIAS:
        return array[None, ids]
    array = _take_columns(AXES[path.rpartition("/")[2]], array, np.argsort)
    return array.T if ids is None else array[ids]


def _take_columns(axes: str, array: Any, direction: Any) -> Any:
    """Puts the model's columns, if there are any, into the order here (`direction` of it, for the way back)."""
    if "m" not in axes:
        return array
    axis = axes.index("m")
    order = np.arange(array.shape[axis]).reshape(2, -1).T.ravel()
    return np.take(array, direction(order), axis)
