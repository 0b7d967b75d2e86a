"""Checkpoints of tensor2tensor 1.2.9 and before, read as if a later release had written them.

One kernel holds queries, keys and values side by side, and attention has biases. The bias of the keys adds the same
number to all scores of a query, which does not change their softmax: it is left out. The bias of the values adds a
constant to each output, so it is added to the bias of the output: b_O + b_V W_O.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any

from t2t_lite.errors import DataError

Shapes = Mapping[str, tuple[int, ...]]
Mean = Callable[[str], Any]

_ATTENTION = re.compile(r"(.+/multihead_attention)/(qkv|q|kv|output)_transform_single/(kernel|bias)")
_FEED_FORWARD = re.compile(r"(.+/ffn)/conv_hidden_relu/(conv[12])_single/(kernel|bias)")


def modern(shapes: Shapes, mean: Mean) -> tuple[dict[str, tuple[int, ...]], Mean]:
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
