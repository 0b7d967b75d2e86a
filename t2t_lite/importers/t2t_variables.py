"""Variables of a tensor2tensor checkpoint: which are the model's, and where each of them goes.

Releases wrote different scopes: "body/...", "transformer/body/...", "transformer/body/parallel_0/body/...". The part
before "body/encoder/layer_0/" is removed; for classes other than `transformer` it begins with another word. Both there
and here, heads are blocks of columns, so no matrix is permuted.

Checkpoints of 1.2.9 and before are read as if a later release had written them. There one kernel holds queries, keys
and values side by side, and attention has biases. The bias of the keys adds the same number to all scores of a query,
which does not change their softmax: it is left out. The bias of the values adds a constant to each output, so it is
added to the bias of the output: b_O + b_V W_O.

Embeddings are tables in shards. They decide about vocabularies and sharing, not hparams.json: if the two vocabularies
have different sizes, tensor2tensor unsets shared_embedding_and_softmax_weights in a copy of the hparams, but writes
True to the file.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from t2t_lite.errors import DataError

_BODY = re.compile(r"((?:.*/)?body/)(encoder|decoder)/layer_0/")  # greedy: the last "body"
_MODALITY = re.compile(r"(?:.*/)?(symbol_modality_\d+_\d+/.+)")
_SLOT = re.compile(r"(?:/(?:Adam(?:_[12])?|Adafactor(?:_1)?|Momentum|vr|vc|v|m)|_slot_(?:vr|vc|v|m))$")
_COUNTER = re.compile(
    r"losses_avg/.*|train_stats/.*|"
    r"(?:.*/)?(?:global_step|iter|beta[12]_power|(?:current_)?loss_scale|(?:good|bad)_steps)"
)
_OPTIMIZER = "training/"


@dataclasses.dataclass(frozen=True)
class Variables:
    """The names in a checkpoint, each in one of these fields.

    weights: name without the scope ("body/...", "symbol_modality_...") -> name in the checkpoint.
    slots: the optimizer's.
    counters: steps, scales of losses and running means of losses.
    """

    weights: Mapping[str, str]
    slots: tuple[str, ...]
    counters: tuple[str, ...]


def is_tensor2tensor(names: Iterable[str]) -> bool:
    """Whether a checkpoint is of tensor2tensor's Transformer, or of a part of it, by the names in it."""
    return any(_BODY.match(name) for name in names)


def sort_variables(names: Iterable[str]) -> Variables:
    """Puts each name of a checkpoint in the field where it belongs.

    Raises:
        DataError: no Transformer of tensor2tensor with encoder and decoder, several in one checkpoint, or a name that
            fits no field.
    """
    names = set(names)
    slots = {name for name in names if name.startswith(_OPTIMIZER) or name != _SLOT.sub("", name) in names}
    counters = {name for name in names - slots if _COUNTER.fullmatch(name)}
    rest = names - slots - counters
    prefix = _prefix(rest)
    weights = {}
    for name in sorted(rest):
        if name.startswith(prefix):
            weights["body/" + name.removeprefix(prefix)] = name
        elif modality := _MODALITY.fullmatch(name):
            weights.setdefault(modality[1], name)
    if unknown := sorted(rest - set(weights.values())):
        raise DataError(f"The checkpoint holds variables that are no part of a Transformer: {join_names(unknown)}.")
    return Variables(weights, tuple(sorted(slots)), tuple(sorted(counters)))


def _prefix(names: set[str]) -> str:
    """The scope of the Transformer's body, with "body/" at its end."""
    matches = [match for name in names if (match := _BODY.match(name))]
    prefixes = {match[1] for match in matches}
    stacks = {match[2] for match in matches}
    if not prefixes:
        raise DataError(
            "This is no checkpoint of tensor2tensor's Transformer: it has no variable ...body/encoder/layer_0/...; "
            f"it holds {join_names(sorted(names))}."
        )
    if len(prefixes) > 1:
        raise DataError(f"The checkpoint holds several models, under {', '.join(sorted(prefixes))}.")
    if stacks != {"encoder", "decoder"}:
        raise DataError(
            f"The checkpoint has only {'an encoder' if stacks == {'encoder'} else 'a decoder'}; a Transformer with "
            "encoder and decoder is needed."
        )
    return prefixes.pop()


def join_names(names: Iterable[str]) -> str:
    """The first few names, for a message."""
    names = list(names)
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "") if names else "nothing"


Shapes = Mapping[str, tuple[int, ...]]
Mean = Callable[[str], Any]

_ATTENTION = re.compile(r"(.+/multihead_attention)/(qkv|q|kv|output)_transform_single/(kernel|bias)")
_FEED_FORWARD = re.compile(r"(.+/ffn)/conv_hidden_relu/(conv[12])_single/(kernel|bias)")


def modernize(shapes: Shapes, mean: Mean) -> tuple[dict[str, tuple[int, ...]], Mean]:
    """Returns the shapes by name, and the function that reads a weight, both with the names of later releases.

    Args:
        shapes: of the weights, by their names without the scope; those of later releases stay as they are.
        mean: reads a weight by such a name.

    Raises:
        DataError: part of an attention is missing, or its widths contradict each other.
    """
    found: dict[str, tuple[tuple[int, ...], Callable[[], Any]]] = {}
    attentions: set[str] = set()
    for name, shape in shapes.items():
        if match := _ATTENTION.fullmatch(name):
            attentions.add(match[1])
        elif match := _FEED_FORWARD.fullmatch(name):
            found["/".join(match.groups())] = (shape[-2:], functools.partial(_flat, mean, name))
        else:
            found[name] = (shape, functools.partial(mean, name))
    for attention in attentions:
        found |= _attention(attention, shapes, mean)
    return {name: shape for name, (shape, _) in found.items()}, lambda name: found[name][1]()


def _flat(mean: Mean, name: str) -> Any:
    """A bias, or a kernel [1, 1, I, O] as [I, O]."""
    array = mean(name)
    return array.reshape(array.shape[-2:])


def _attention(start: str, shapes: Shapes, mean: Mean) -> dict[str, tuple[tuple[int, ...], Callable[[], Any]]]:
    """Name -> (shape, reader) of one attention's weights; `keys`, `values`: their numbers of columns, all heads."""

    def shape(part: str, kind: str = "kernel") -> tuple[int, ...]:
        name = f"{start}/{part}_transform_single/{kind}"
        if name not in shapes:
            raise DataError(f"The checkpoint is not complete: it has {start}, but not {name}.")
        return shapes[name]

    def read(part: str, kind: str = "kernel") -> Any:
        return _flat(mean, f"{start}/{part}_transform_single/{kind}")

    values, d_model = shape("output")[-2:]
    one = f"{start}/qkv_transform_single/kernel" in shapes
    first, second = ("qkv", "qkv") if one else ("q", "kv")
    wide = shape(second)[-1]
    keys = (wide - values) // 2 if one else shape(first)[-1]
    skip = keys if one else 0  # columns of the queries, which come before the keys
    fits = wide == skip + keys + values
    if not fits or any(shape(part, "bias") != shape(part)[-1:] for part in (first, second, "output")):
        raise DataError(f"The checkpoint contradicts itself: the widths of {start} do not fit together.")

    def output_bias() -> Any:
        return read("output", "bias") + read(second, "bias")[-values:] @ read("output")

    inputs = shape(second)[-2]
    return {
        f"{start}/q/kernel": ((shape(first)[-2], keys), lambda: read(first)[:, :keys]),
        f"{start}/k/kernel": ((inputs, keys), lambda: read(second)[:, skip : skip + keys]),
        f"{start}/v/kernel": ((inputs, values), lambda: read(second)[:, -values:]),
        f"{start}/output_transform/kernel": ((values, d_model), lambda: read("output")),
        f"{start}/q/bias": ((keys,), lambda: read(first, "bias")[:keys]),
        f"{start}/output_transform/bias": ((d_model,), output_bias),
    }


# The tables there -> weight here -> the table that goes there.
_ROLES = {
    frozenset({"shared"}): {"target_embedding": "shared"},
    frozenset({"shared", "softmax"}): {
        "target_embedding": "shared",
        "source_embedding": "shared",
        "softmax": "softmax",
    },
    frozenset({"input_emb", "target_emb", "softmax"}): {
        "target_embedding": "target_emb",
        "source_embedding": "input_emb",
        "softmax": "softmax",
    },
}
_SHARD = re.compile(r"symbol_modality_(\d+)_(\d+)/(shared|input_emb|target_emb|softmax)/weights_(\d+)")


@dataclasses.dataclass(frozen=True)
class Table:
    """One table [rows, d_model]: the names of its shards, in their order."""

    rows: int
    d_model: int
    shards: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Embeddings:
    """The tables of a model.

    tables: path of the weight here -> the table; one table may serve two paths.
    shared: one table for source, target and softmax.
    tied: the softmax uses the target's table.
    """

    tables: Mapping[str, Table]
    source_vocab_size: int
    target_vocab_size: int
    d_model: int
    shared: bool
    tied: bool


def find_tables(shapes: Mapping[str, tuple[int, ...]]) -> Embeddings:
    """Finds the tables among the weights of a model.

    Args:
        shapes: of the weights, by their names without the scope.

    Raises:
        DataError: shards or tables are missing, or their shapes contradict each other.
    """
    found: dict[str, dict[int, str]] = {}
    sizes: dict[str, tuple[int, int]] = {}
    for name in shapes:
        if match := _SHARD.fullmatch(name):
            rows, width, part, shard = int(match[1]), int(match[2]), match[3], int(match[4])
            if sizes.setdefault(part, (rows, width)) != (rows, width):
                raise DataError(f"The checkpoint has two tables {part!r}, of {sizes[part]} and {(rows, width)}.")
            found.setdefault(part, {})[shard] = name
    tables = {part: _table(part, sizes[part], shards, shapes) for part, shards in found.items()}
    roles = _ROLES.get(frozenset(tables))
    if roles is None:
        raise DataError(
            f"The checkpoint has the embeddings {', '.join(sorted(tables)) or 'none'}; a model of text to text has "
            "shared, or shared and softmax, or input_emb, target_emb and softmax."
        )
    by_path = {f"transformer/{role}/table": tables[part] for role, part in roles.items()}
    target = by_path["transformer/target_embedding/table"]
    source = by_path.get("transformer/source_embedding/table", target)
    softmax = by_path.get("transformer/softmax/table", target)
    if softmax.rows != target.rows or len({table.d_model for table in tables.values()}) > 1:
        raise DataError(f"The embeddings of the checkpoint do not fit together: {sizes}.")
    shared, tied = "source_embedding" not in roles, "softmax" not in roles
    return Embeddings(by_path, source.rows, target.rows, target.d_model, shared, tied)


def _table(part: str, size: tuple[int, int], shards: dict[int, str], shapes: Mapping[str, tuple[int, ...]]) -> Table:
    names = tuple(shards[i] for i in sorted(shards))  # by number: weights_10 comes after weights_2
    there = [shapes[name] for name in names]
    rows = sum(shape[0] for shape in there)
    if sorted(shards) != list(range(len(shards))) or rows != size[0] or any(shape[1:] != size[1:] for shape in there):
        raise DataError(
            f"The table {part!r} of the checkpoint has {rows} rows in the shards {sorted(shards)}, of shapes {there}; "
            f"its name says {size[0]} rows of {size[1]}."
        )
    return Table(*size, names)


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
    # of 2017; see `modernize`
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


def append_zeros(table: Any) -> Any:
    """Returns a float32 table of learned positions with a row of zeros at its end."""
    return np.pad(table, ((0, 1), (0, 0)))
