"""Where each variable of OpenNMT-tf's Transformer goes: a table of names.

Both there and here, heads are blocks of columns and kernels are [inputs, outputs], so no matrix is permuted.
"""

from __future__ import annotations

import re

_ENDING = "/.ATTRIBUTES/VARIABLE_VALUE"  # of TensorFlow 2
_MODEL = "model/"

# (stack, sub-layer there) -> (the residual connection here, the layer in it).
_SUBLAYERS = {
    ("encoder", "self_attention"): ("around_attention", "self_attention"),
    ("encoder", "ffn"): ("around_feed_forward", "feed_forward"),
    ("decoder", "self_attention"): ("around_self", "self_attention"),
    ("decoder", "attention/0"): ("around_memory", "memory_attention"),
    ("decoder", "ffn"): ("around_feed_forward", "feed_forward"),
}

# The name after STACK/layers/L/SUBLAYER/ -> the path in the residual connection here; {0} is the name of the layer in
# it. Biases of keys and values have no place of their own: see opennmt.
_IN_SUBLAYER = {
    r"(?:input|output)_layer_norm/gamma": "layer_norm/gamma",
    r"(?:input|output)_layer_norm/beta": "layer_norm/beta",
    "layer/linear_queries/kernel": "{0}/query",
    "layer/linear_queries/bias": "{0}/query_bias",
    "layer/linear_keys/kernel": "{0}/key",
    "layer/linear_keys/bias": "{0}/key_bias",
    "layer/linear_values/kernel": "{0}/value",
    "layer/linear_values/bias": "{0}/value_bias",
    "layer/linear_output/kernel": "{0}/output",
    "layer/linear_output/bias": "{0}/output_bias",
    "layer/relative_position_keys": "{0}/relative_keys",
    "layer/relative_position_values": "{0}/relative_values",
    "layer/inner/kernel": "{0}/kernel_1",
    "layer/inner/bias": "{0}/bias_1",
    "layer/outer/kernel": "{0}/kernel_2",
    "layer/outer/bias": "{0}/bias_2",
}

_ELSEWHERE = {
    "encoder/layer_norm/gamma": "encoder/final_norm/gamma",
    "encoder/layer_norm/beta": "encoder/final_norm/beta",
    "decoder/layer_norm/gamma": "decoder/final_norm/gamma",
    "decoder/layer_norm/beta": "decoder/final_norm/beta",
    "encoder/position_encoder/position_embedding": "source_positions/table",
    "decoder/position_encoder/position_embedding": "target_positions/table",
    "examples_inputter/features_inputter/embedding": "source_embedding/table",
    "examples_inputter/labels_inputter/embedding": "target_embedding/table",
    "decoder/output_layer/kernel": "softmax/table",
    "decoder/output_layer/bias": "output_bias",
}

_LAYER = re.compile(r"(encoder|decoder)/layers/(\d+)/(self_attention|attention/0|ffn)/(.+)")


def is_opennmt(names: set[str]) -> bool:
    """Whether a checkpoint is of OpenNMT-tf 2, by the names in it."""
    return any(name.startswith(_MODEL) and name.endswith(_ENDING) for name in names)


def short(name: str) -> str | None:
    """Returns the short name, such as "decoder/output_layer/bias", of a name in the checkpoint; None: not a weight."""
    if not (name.startswith(_MODEL) and name.endswith(_ENDING)) or "/.OPTIMIZER_SLOT/" in name:
        return None
    return name.removeprefix(_MODEL).removesuffix(_ENDING)


def place(name: str) -> str | None:
    """Returns the path here of a weight by its short name, or None if it has no counterpart here."""
    if name in _ELSEWHERE:
        return f"transformer/{_ELSEWHERE[name]}"
    if (match := _LAYER.fullmatch(name)) and (match[1], match[3]) in _SUBLAYERS:
        around, inside = _SUBLAYERS[match[1], match[3]]
        for pattern, path in _IN_SUBLAYER.items():
            if re.fullmatch(pattern, match[4]):
                return f"transformer/{match[1]}/layer_{match[2]}/{around}/{path.format(inside)}"
    return None
