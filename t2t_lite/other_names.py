"""Names of other toolkits and what each is called here, for messages about unknown names.

Importers keep them as data, TOOLKIT_names.json beside their code. A test compares them with
docs/from_tensor2tensor.md.
"""

import functools
import json
from pathlib import Path
from typing import NamedTuple


class Ours(NamedTuple):
    """Our name for another toolkit's: `name`, "" if there is none; `note`: what differs, or why there is none."""

    toolkit: str
    name: str
    note: str


@functools.cache
def names(kind: str) -> dict[str, Ours]:
    """Returns what the names of a kind are called here; kinds are "flag", "problem", "hparams set" and "setting"."""
    found = {}
    for path in sorted(Path(__file__).parent.glob("*/*_names.json")):
        toolkit = path.stem.removesuffix("_names")
        for theirs, name, note in json.loads(path.read_text("utf-8")).get(kind, []):
            found.update(dict.fromkeys(theirs, Ours(toolkit, name, note)))
    return found


def answer(kind: str, name: str, suffix: str = "") -> str:
    """Returns " tensor2tensor's NAME is 'OURS' here (note)." or "" where no toolkit has it; both get `suffix`."""
    ours = names(kind).get(name)
    if ours is None:
        return ""
    if not ours.name:
        return f" {ours.toolkit}'s {name}{suffix} has no counterpart here: {ours.note}."
    return f" {ours.toolkit}'s {name}{suffix} is {ours.name}{suffix} here{f' ({ours.note})' if ours.note else ''}."
