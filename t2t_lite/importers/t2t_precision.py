"""Precisions of tensor2tensor's trainings: how weights are stored in bfloat16, and what a report says about them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from t2t_lite.errors import DataError


def decoder(hparams: Mapping[str, Any]) -> Any:
    """Returns the function that turns numbers stored as bfloat16 in a checkpoint into weights.

    With weight_dtype=bfloat16 tensor2tensor stores sign(x) (128 |x|)^8, which is finer than bfloat16 itself
    (utils/quantization.py, EighthPowerEncoding). Only Adafactor can train this way.

    Args:
        hparams: tensor2tensor's, as far as they are known.
    """

    def decode(stored: Any) -> Any:
        if "weight_dtype" not in hparams:
            raise DataError(
                "The checkpoint stores weights as bfloat16, and nothing beside it says how. Give "
                "--hparams=weight_dtype=bfloat16 if tensor2tensor trained it so, which then are eighth powers, or "
                "--hparams=weight_dtype=float32 if its weights were rounded later."
            )
        if hparams["weight_dtype"] != "bfloat16":
            return stored
        root = np.sqrt(np.sqrt(np.sqrt(np.abs(stored))))
        return np.sign(stored) * root / np.float32(128)

    return decode


def describe(hparams: Mapping[str, Any]) -> str | None:
    """Returns what the report of an import says about a training in another precision than float32."""
    weights, activations = (hparams.get(f"{what}_dtype", "float32") for what in ("weight", "activation"))
    if activations == "float32" and hparams.get("gpu_automatic_mixed_precision"):
        activations = "float16"
    if activations == "float32":
        return "float32; weights were stored as bfloat16" if weights == "bfloat16" else None
    return f"float32; tensor2tensor computed in {activations}, so that its outputs may differ where two are close"
