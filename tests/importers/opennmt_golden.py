"""Restores, as files, the OpenNMT-tf checkpoints that tests/golden/opennmt_transformer.py stored."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "opennmt_transformer.npz"
NAMES = ("shared", "separate", "relative", "learned")
SOURCE_END = ("separate",)  # models whose data had source_sequence_controls with an end
SINES = "SinusoidalPositionEncoder"
ALL_SETTINGS = f"num_heads=2,ffn_activation=relu,position_encoder_class={SINES}"  # all settings that change outputs
SETTINGS = {
    "shared": ALL_SETTINGS,
    "separate": f"{ALL_SETTINGS},source_end=true",
    "relative": "ffn_activation=relu,position_encoder_class=None",
    "learned": "num_heads=2,ffn_activation=relu,position_encoder_class=PositionEmbedder",
}


def golden(name: str) -> dict[str, Any]:
    """Ids, logits, lines and the output for them; "variables" by name."""
    with np.load(GOLDEN, allow_pickle=False) as file:
        found = {path.partition("/")[2]: file[path] for path in file if path.startswith(f"{name}/")}
    variables, at = {}, 0
    for path, shape in json.loads(str(found["shapes"])):
        variables[path] = found["values"][at : at + math.prod(shape)].reshape(shape)
        at += math.prod(shape)
    assert at == len(found["values"])
    return {**found, "variables": variables}


def save(folder: Path, found: dict[str, Any], variables: dict[str, Any] | None = None) -> list[str]:
    """Writes a folder as OpenNMT-tf does, with vocabularies beside it; returns the flags that import it."""
    folder.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, Any] = dict(found["variables"] if variables is None else variables)
    if "graph" in found:
        arrays["_CHECKPOINTABLE_OBJECT_GRAPH"] = found["graph"].tobytes()
    tf.raw_ops.SaveV2(
        prefix=str(folder / "ckpt-500"),
        tensor_names=list(arrays),
        shape_and_slices=[""] * len(arrays),
        tensors=[tf.constant(array) for array in arrays.values()],
    )
    for side in ("source", "target"):
        (folder / f"{side}.vocab").write_text(str(found[f"{side}_vocabulary"]))
    flags = [f"--checkpoint={folder}", f"--vocabulary={folder}/source.vocab"]
    if str(found["source_vocabulary"]) != str(found["target_vocabulary"]):
        flags.append(f"--target_vocabulary={folder}/target.vocab")
    return flags


def best(found: dict[str, Any]) -> list[str]:
    """The first of the four translations of each line."""
    return [row.partition(" ||| ")[2] for row in found["nbest"][::4]]
