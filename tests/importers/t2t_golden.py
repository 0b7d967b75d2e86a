"""What scripts of tests/golden stored of tensor2tensor's graphs, as arrays; and the reference for imported models."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from t2t_lite.importers.imported import Imported
from tests import reference

FOLDER = Path(__file__).resolve().parents[1] / "golden"


def read(file: Path, name: str) -> dict[str, Any]:
    """All stored arrays of a case, by name."""
    with np.load(file, allow_pickle=False) as stored:
        return {path.partition("/")[2]: stored[path] for path in stored if path.startswith(f"{name}/")}


def arrays(golden: dict[str, Any], kind: str) -> dict[str, Any]:
    """Variables by name, in their stored types; without stored types, all are float32 except the step, int64."""
    shapes = json.loads(str(golden[f"{kind}/shapes"]))
    types = golden.get("types", ["int64" if path == "global_step" else "float32" for path, _ in shapes])
    found, at = {}, 0
    for (path, shape), name in zip(shapes, types, strict=True):
        values = golden[f"{kind}/values"][at : at + math.prod(shape)].reshape(shape)
        found[path], at = values.astype(tf.as_dtype(str(name)).as_numpy_dtype), at + math.prod(shape)
    assert at == len(golden[f"{kind}/values"])
    return found


def reference_of(imported: Imported) -> reference.Transformer:
    """The equations in float64, with imported weights."""
    described = imported.description
    return reference.Transformer(
        {path.removeprefix("transformer/"): np.float64(weight) for path, weight in imported.weights.items()},
        described.num_layers,
        described.num_heads,
        described.norm,
        described.num_decoder_layers,
        described.positions,
        norm_epsilon=described.norm_epsilon,
    )
