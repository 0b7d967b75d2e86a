"""Small checkpoints with tensor2tensor's names and random numbers, for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

D, F, V, SHARDS = 8, 12, 23, 11
HPARAMS = {
    "num_heads": 2,
    "hidden_size": D,
    "filter_size": F,
    "num_hidden_layers": 2,
    "layer_preprocess_sequence": "n",
    "layer_postprocess_sequence": "da",
    "learning_rate_schedule": "constant*linear_warmup*rsqrt_decay*rsqrt_hidden_size",
    "learning_rate_warmup_steps": 4000,
    "learning_rate_constant": 1.0,
    "optimizer": "adam",
    "optimizer_adam_beta1": 0.9,
    "optimizer_adam_beta2": 0.997,
    "optimizer_adam_epsilon": 1e-9,
}


def variables(
    seed: int = 0, scope: str = "transformer/body/", layers: tuple[int, int] = (2, 2), rows: int = V
) -> dict[str, Any]:
    """Returns {name: array} of a pre-norm Transformer; the table of `rows` rows has shards of unequal size."""
    generator = np.random.default_rng(seed)
    found = {}

    def add(name: str, *shape: int) -> None:
        found[name] = generator.normal(size=shape).astype(np.float32)

    def norm(start: str) -> None:
        for name in ("scale", "bias"):
            add(f"{start}/layer_prepostprocess/layer_norm/layer_norm_{name}", D)

    for stack, number in zip(("encoder", "decoder"), layers, strict=True):
        for layer in range(number):
            start = f"{scope}{stack}/layer_{layer}"
            for part in ("self_attention", "encdec_attention")[: 1 + (stack == "decoder")]:
                norm(f"{start}/{part}")
                for matrix in ("q", "k", "v", "output_transform"):
                    add(f"{start}/{part}/multihead_attention/{matrix}/kernel", D, D)
            norm(f"{start}/ffn")
            for i, shape in (("1", (D, F)), ("2", (F, D))):
                add(f"{start}/ffn/conv{i}/kernel", *shape)
                add(f"{start}/ffn/conv{i}/bias", shape[1])
        norm(f"{scope}{stack}")
    add(f"{scope}target_space_embedding/kernel", 32, D)
    outer = scope.removesuffix("body/")
    for i in range(SHARDS):
        add(f"{outer}symbol_modality_{rows}_{D}/shared/weights_{i}", rows // SHARDS + (i < rows % SHARDS), D)
    found["global_step"] = np.int64(100)
    return found


def save(prefix: Path, arrays: dict[str, Any], hparams: dict[str, Any] | None = HPARAMS) -> str:
    """Writes a checkpoint in TensorFlow 1's format, and hparams.json beside it; returns its prefix."""
    prefix.parent.mkdir(parents=True, exist_ok=True)
    names = list(arrays)
    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=[tf.constant(arrays[name]) for name in names],
    )
    if hparams is not None:
        (prefix.parent / "hparams.json").write_text(json.dumps(hparams))
    return str(prefix)
