"""An OpenNMT-tf checkpoint as the weights of a `Transformer`: each variable is used once, or the import fails.

Each difference from the paper is an option here: layer normalisation's epsilon is 0.001; positions are sines, then
cosines, counted from 1; the decoder starts from the vector of <s>; attention and logits have biases; the encoder sees
no end symbol unless the data asked for it (layers/common.py, layers/position.py, decoders/decoder.py,
inputters/text_inputter.py of 2.32.0).

A bias of keys adds the same number to all scores of a query, which does not change their softmax. A bias of values adds
a constant to each output, so it is added to the bias of the output: b_O + b_V W_O.

Both there and here, heads are blocks of columns and kernels are [inputs, outputs], so no matrix is permuted.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from t2t_lite.errors import DataError, UsageError
from t2t_lite.importers import opennmt_settings, tf1_checkpoint
from t2t_lite.importers.imported import Description, Imported, check_ranks, count_layers, shape_of
from t2t_lite.importers.t2t_variables import Variables, join_names
from t2t_lite.importers.tf1_checkpoint import Tf1Checkpoints

_ENDING = "/.ATTRIBUTES/VARIABLE_VALUE"  # of TensorFlow 2
_MODEL = "model/"
_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"  # which object has which variable; so do the names
_EPSILON = 1e-3  # Keras' default, which its LayerNorm has since 2.3
_START = 1  # the id of <s>
_TABLES = ("source_embedding", "target_embedding", "softmax")
_SOURCE, _TARGET, _SOFTMAX = (f"transformer/{name}/table" for name in _TABLES)
_ATTENTION = "transformer/encoder/layer_0/around_attention/self_attention/"

# (stack, sub-layer there) -> (the residual connection here, the layer in it).
_SUBLAYERS = {
    ("encoder", "self_attention"): ("around_attention", "self_attention"),
    ("encoder", "ffn"): ("around_feed_forward", "feed_forward"),
    ("decoder", "self_attention"): ("around_self", "self_attention"),
    ("decoder", "attention/0"): ("around_memory", "memory_attention"),
    ("decoder", "ffn"): ("around_feed_forward", "feed_forward"),
}

# The name after STACK/layers/L/SUBLAYER/ -> the path in the residual connection here; {0} is the name of the layer in
# it. Biases of keys and values have no place of their own.
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


def read(
    paths: Sequence[str | os.PathLike[str]],
    *,
    average: int = 1,
    hparams_set: str | None = None,
    hparams: str | None = None,
    target_space_id: int | None = None,
) -> Imported:
    """Reads a model that OpenNMT-tf 2 trained; arguments as those of `tensor2tensor.read`.

    Args:
        hparams_set: a name of its catalog, such as TransformerBase.
        hparams: see opennmt_settings.

    Raises:
        UsageError, DataError: something is missing, damaged, or cannot be expressed here.
    """
    if target_space_id is not None:
        raise UsageError(f"target_space_id={target_space_id}: models of OpenNMT-tf have no target space.")
    prefixes = [prefix for path in paths for prefix in tf1_checkpoint.find(path, average)]
    checkpoints = Tf1Checkpoints(prefixes)
    settings = opennmt_settings.read(hparams_set, hparams)
    variables = _sort_out(checkpoints.shapes)
    weights = {}
    for name, full in variables.weights.items():
        path = place(name)
        if path is None:
            raise DataError(
                f"The checkpoint holds {name}, which nothing here is like. It is of another model than OpenNMT-tf's "
                "Transformer from text to text, or uses an option of it that is not known here."
            )
        check_ranks({name: checkpoints.shapes[full]})
        weights[path] = checkpoints.mean(full)
    fold_biases(weights)
    weights, shared, share_embeddings = _tables(weights)
    description = _describe(weights, shared, share_embeddings, settings)
    relative = bool(description.max_relative_position)
    if hparams_set and relative != (opennmt_settings.CATALOG[hparams_set]["position_encoder_class"] is None):
        has, has_not = ("checkpoint", hparams_set) if relative else (hparams_set, "checkpoint")
        raise UsageError(
            f"--hparams_set={hparams_set}: the {has} has relative positions, and the {has_not} has none. Give the "
            "name of its own model, or leave --hparams_set out and give --hparams=num_heads=N,position_encoder_class="
            "NAME."
        )
    usual = opennmt_settings.complete(settings)
    return Imported("OpenNMT-tf", weights, description, None, variables, settings, tuple(prefixes), usual)


def _sort_out(names: Mapping[str, Any]) -> Variables:
    """The model's variables by their short names, and the optimizer's."""
    rest = set(names) - {_GRAPH}
    weights = {name: full for full in sorted(rest) if (name := short(full))}
    rest -= set(weights.values())
    slots = {name for name in rest if "/.OPTIMIZER_SLOT/" in name}
    counters = {name for name in rest - slots if name.startswith(("optimizer/", "save_counter/"))}
    if unknown := sorted(rest - slots - counters):
        raise DataError(
            f"The checkpoint holds variables that are no part of an OpenNMT-tf model: {join_names(unknown)}."
        )
    stacks = {name.partition("/")[0] for name in weights if re.match(r"(encoder|decoder)/layers/0/", name)}
    if stacks != {"encoder", "decoder"}:
        raise DataError(
            "The checkpoint is not of OpenNMT-tf's Transformer, which has encoder/layers/0/... and "
            f"decoder/layers/0/...; it holds {join_names(sorted(weights))}."
        )
    return Variables(weights, tuple(sorted(slots)), tuple(sorted(counters)))


def fold_biases(weights: dict[str, Any]) -> None:
    """Adds biases of values to those of outputs, and removes weights that have no effect.

    The latter are biases of keys, and the first row of learned positions, as positions are counted from 1.
    """
    for path in [path for path in weights if path.endswith("/value_bias")]:
        start = path.removesuffix("value_bias")
        others = ("query_bias", "key_bias", "output_bias", "output")
        lacking = [name for name in others if f"{start}{name}" not in weights]
        if lacking:
            raise DataError(f"The checkpoint is not complete: it has {path}, but no {', '.join(lacking)} for it.")
        shape, rows = weights[path].shape, weights[f"{start}output"].shape[0]
        if shape != (rows,):
            raise DataError(f"The checkpoint contradicts itself: {path} has shape {shape}, not {(rows,)}.")
        weights[f"{start}output_bias"] = weights[f"{start}output_bias"] + weights[path] @ weights[f"{start}output"]
        del weights[path], weights[f"{start}key_bias"]
    for side in ("source", "target"):
        if (path := f"transformer/{side}_positions/table") in weights:
            weights[path] = weights[path][1:]  # positions are counted from 1


def _tables(weights: dict[str, Any]) -> tuple[dict[str, Any], bool, bool]:
    """The weights with the tables in place; whether one serves all, and whether the softmax uses the target's table.

    OpenNMT-tf's levels of sharing are ALL (one table is written), TARGET (two tables and no kernel),
    SOURCE_TARGET_INPUT (one table and a kernel) and NONE.
    """
    found = dict(weights)
    if _SOURCE not in found:
        raise DataError("The checkpoint has no examples_inputter/features_inputter/embedding, the source's table.")
    if _SOFTMAX in found:
        found[_SOFTMAX] = found[_SOFTMAX].T
    shared = _TARGET not in found and _SOFTMAX not in found
    if _TARGET not in found:
        found[_TARGET] = found[_SOURCE]
    if shared:
        del found[_SOURCE]
    tied = _SOFTMAX not in found
    rows, d_model = found[_TARGET].shape
    softmax, bias = (found.get(path, found[_TARGET]) for path in (_SOFTMAX, "transformer/output_bias"))
    if rows <= _START or softmax.shape != (rows, d_model) or len(bias) != rows:
        raise DataError(
            f"The checkpoint contradicts itself: the target has {rows} rows of {d_model}, and the softmax has "
            f"{softmax.shape} and {len(bias)} biases."
        )
    found["transformer/start_vector"] = found[_TARGET][_START] * math.sqrt(d_model)
    return found, shared, tied


def _describe(
    weights: Mapping[str, Any], shared: bool, share_embeddings: bool, settings: Mapping[str, Any]
) -> Description:
    shapes = {path: array.shape for path, array in weights.items()}
    rows, d_model = shapes[_TARGET]
    if settings.get("num_units", d_model) != d_model:
        raise DataError(
            f"The settings are of another model of OpenNMT-tf than the checkpoint: they say num_units="
            f"{settings['num_units']}, and the checkpoint has {d_model}. Give those of its own model."
        )
    relative = shapes.get(f"{_ATTENTION}relative_keys")
    heads = d_model // relative[1] if relative else settings.get("num_heads")
    if heads is None:
        raise DataError(
            "The checkpoint of OpenNMT-tf does not say how many heads its attention has; the model_description.py of "
            "its training does. Give --hparams_set=NAME, such as TransformerBase, or --hparams=num_heads=N."
        )
    if not isinstance(heads, int) or heads < 1 or d_model % heads:
        raise DataError(f"num_heads={heads!r} does not divide the {d_model} columns of the model of OpenNMT-tf.")
    learned = shapes.get("transformer/source_positions/table")
    encoder = _position_encoder(bool(learned), bool(relative), settings)
    return Description(
        num_layers=count_layers(shapes, "transformer/encoder"),
        num_decoder_layers=count_layers(shapes, "transformer/decoder"),
        d_model=d_model,
        d_ff=shape_of(shapes, "transformer/encoder/layer_0/around_feed_forward/feed_forward/bias_1")[0],
        num_heads=heads,
        d_k=d_model // heads,
        d_v=d_model // heads,
        norm="pre" if "transformer/encoder/final_norm/gamma" in shapes else "post",
        positions="learned" if learned else "opennmt" if encoder else "none",
        max_positions=learned[0] if learned else 0,
        max_relative_position=relative[0] // 2 if relative else 0,
        attention_biases=f"{_ATTENTION}query_bias" in shapes,
        source_vector=False,
        source_vocab_size=shapes.get(_SOURCE, (rows,))[0],
        target_vocab_size=rows,
        shared=shared,
        share_embeddings=share_embeddings,
        norm_epsilon=settings.get("norm_epsilon", _EPSILON),
        source_end=bool(settings.get("source_end", False)),
        start_vector=True,
        output_bias="transformer/output_bias" in shapes,
    )


def _position_encoder(learned: bool, relative: bool, settings: Mapping[str, Any]) -> str | None:
    """The class of the positions that are added to embeddings, if any; a model may have relative positions as well."""
    if learned:
        return "PositionEmbedder"
    if relative and "position_encoder_class" not in settings:
        raise DataError(
            "The checkpoint of OpenNMT-tf has relative positions, and does not say whether sinusoids are added, too. "
            "Give --hparams=position_encoder_class=None, as TransformerBaseRelative has it, or "
            "--hparams=position_encoder_class=SinusoidalPositionEncoder, which is the default of its Transformer."
        )
    found: str | None = settings.get("position_encoder_class", opennmt_settings.DEFAULTS["position_encoder_class"])
    if found == "PositionEmbedder":
        raise DataError(
            "The model of OpenNMT-tf is said to have learned positions, and the checkpoint holds none. Give the "
            "--hparams_set or the --hparams that belong to it."
        )
    return found
