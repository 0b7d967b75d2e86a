"""Table that maps tensor2tensor's variables to ours.

Both there and here, heads are blocks of columns, so no matrix is permuted.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np

_NORM = r"layer_(?:prepostprocess|preprocess|postprocess)/layer_norm/layer_norm_"
_RELATIVE = "multihead_attention/dot_product_attention_relative/relative_positions_"

# (stack, sub-layer of tensor2tensor) -> (the residual connection here, the layer in it).
_SUBLAYERS = {
    ("encoder", "self_attention"): ("around_attention", "self_attention"),
    ("encoder", "ffn"): ("around_feed_forward", "feed_forward"),
    ("decoder", "self_attention"): ("around_self", "self_attention"),
    ("decoder", "encdec_attention"): ("around_memory", "memory_attention"),
    ("decoder", "ffn"): ("around_feed_forward", "feed_forward"),
}

# The name after body/STACK/layer_L/SUBLAYER/ -> (path in the residual connection here, how it is changed). {0} is the
# name of the layer in the connection.
_IN_SUBLAYER = {
    "multihead_attention/q/kernel": ("{0}/query", ""),
    "multihead_attention/k/kernel": ("{0}/key", ""),
    "multihead_attention/v/kernel": ("{0}/value", ""),
    "multihead_attention/output_transform/kernel": ("{0}/output", ""),
    # of 2017; see t2t_2017
    "multihead_attention/q/bias": ("{0}/query_bias", ""),
    "multihead_attention/output_transform/bias": ("{0}/output_bias", ""),
    # attention_variables_3d: heads are an axis, and tensor2tensor does not divide the queries by sqrt(d_k).
    "multihead_attention/q": ("{0}/query", "scaled heads"),
    "multihead_attention/k": ("{0}/key", "heads"),
    "multihead_attention/v": ("{0}/value", "heads"),
    "multihead_attention/o": ("{0}/output", "heads"),
    f"{_RELATIVE}keys/embeddings": ("{0}/relative_keys", ""),
    f"{_RELATIVE}values/embeddings": ("{0}/relative_values", ""),
    f"{_NORM}scale": ("layer_norm/gamma", ""),
    f"{_NORM}bias": ("layer_norm/beta", ""),
    "conv1/kernel": ("{0}/kernel_1", ""),
    "conv1/bias": ("{0}/bias_1", ""),
    "conv2/kernel": ("{0}/kernel_2", ""),
    "conv2/bias": ("{0}/bias_2", ""),
}

# The name after body/ -> (path here, how it is changed).
_IN_BODY = {
    rf"(encoder|decoder)/{_NORM}scale": (r"\1/final_norm/gamma", ""),
    rf"(encoder|decoder)/{_NORM}bias": (r"\1/final_norm/beta", ""),
    "target_space_embedding/kernel": ("source_bias", "row"),
    "inputs_positional_embedding": ("source_positions/table", "zeros"),
    "targets_positional_embedding": ("target_positions/table", "zeros"),
}

_LAYER = re.compile(r"body/(encoder|decoder)/layer_(\d+)/(\w+)/(.+)")


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a variable goes.

    path: of the weight here.
    change: "" for none, "heads" if heads are an axis of their own, "scaled heads" if, in addition, queries are not
        divided by sqrt(d_k), "row" if one row is taken, "zeros" if a row of zeros follows: beyond the table of learned
        positions tensor2tensor adds zeros, and a model here the last row.
    """

    path: str
    change: str


def place(name: str) -> Place | None:
    """Returns where a variable of the body goes, or None if it has no counterpart here.

    Args:
        name: without the scope: "body/encoder/layer_0/ffn/conv1/kernel".
    """
    if match := _LAYER.fullmatch(name):
        stack, layer, sublayer, rest = match.groups()
        if (stack, sublayer) not in _SUBLAYERS:
            return None
        around, inside = _SUBLAYERS[stack, sublayer]
        for pattern, (path, change) in _IN_SUBLAYER.items():
            if re.fullmatch(pattern, rest):
                return Place(f"transformer/{stack}/layer_{layer}/{around}/{path.format(inside)}", change)
        return None
    for pattern, (path, change) in _IN_BODY.items():
        if match := re.fullmatch(f"body/{pattern}", name):
            return Place(f"transformer/{match.expand(path)}", change)
    return None


def with_zeros(table: Any) -> Any:
    """Returns a float32 table of learned positions with a row of zeros at its end."""
    return np.pad(table, ((0, 1), (0, 0)))
