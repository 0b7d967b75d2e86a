"""Variables of a tensor2tensor checkpoint: which are the model's, which its optimizer's, and which count steps.

Releases wrote different scopes: "body/...", "transformer/body/...", "transformer/body/parallel_0/body/...". The part
before "body/encoder/layer_0/" is removed; for classes other than `transformer` it begins with another word.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping

from t2t_lite.errors import DataError

_BODY = re.compile(r"((?:.*/)?body/)(encoder|decoder)/layer_0/")  # greedy: the last "body"
_MODALITY = re.compile(r"(?:.*/)?(symbol_modality_\d+_\d+/.+)")
_SLOT = re.compile(r"(.+?)(?:/(?:Adam(?:_[12])?|Adafactor(?:_1)?|Momentum|vr|vc|v|m)|_slot_(?:vr|vc|v|m))")
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


def sorted_out(names: Iterable[str]) -> Variables:
    """Puts each name of a checkpoint in the field where it belongs.

    Raises:
        DataError: no Transformer of tensor2tensor with encoder and decoder, several in one checkpoint, or a name that
            fits no field.
    """
    names = set(names)
    slots = {name for name in names if name.startswith(_OPTIMIZER) or _slot_of(name) in names}
    counters = {name for name in names - slots if _COUNTER.fullmatch(name)}
    rest = names - slots - counters
    prefix = _prefix(rest)
    weights, unknown = {}, []
    for name in sorted(rest):
        if name.startswith(prefix):
            weights["body/" + name.removeprefix(prefix)] = name
        elif (modality := _MODALITY.fullmatch(name)) and modality[1] not in weights:
            weights[modality[1]] = name
        else:
            unknown.append(name)
    if unknown:
        raise DataError(f"The checkpoint holds variables that are no part of a Transformer: {shown(unknown)}.")
    return Variables(weights, tuple(sorted(slots)), tuple(sorted(counters)))


def _prefix(names: set[str]) -> str:
    """The scope of the Transformer's body, with "body/" at its end."""
    matches = [match for name in names if (match := _BODY.match(name))]
    prefixes = {match[1] for match in matches}
    stacks = {match[2] for match in matches}
    if not prefixes:
        raise DataError(
            "This is no checkpoint of tensor2tensor's Transformer: it has no variable ...body/encoder/layer_0/...; "
            f"it holds {shown(sorted(names))}."
        )
    if len(prefixes) > 1:
        raise DataError(f"The checkpoint holds several models, under {', '.join(sorted(prefixes))}.")
    if stacks != {"encoder", "decoder"}:
        raise DataError(
            f"The checkpoint has only {'an encoder' if stacks == {'encoder'} else 'a decoder'}; a Transformer with "
            "encoder and decoder is needed."
        )
    return prefixes.pop()


def _slot_of(name: str) -> str | None:
    match = _SLOT.fullmatch(name)
    return match[1] if match else None


def shown(names: Iterable[str]) -> str:
    """The first few names, for a message."""
    names = list(names)
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "") if names else "nothing"
