"""Hparams sets of tensor2tensor: what they say that shapes do not show (models/transformer.py at bafdc1b, 1.15.7)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_NAMES = json.loads(Path(__file__).with_name("tensor2tensor_names.json").read_text("utf-8"))
HEADS: dict[str, int] = {name: int(heads) for heads, names in _NAMES["heads"].items() for name in names}
ACTIVATIONS = {"transformer_tpu_bf16_activation": "bfloat16", "transformer_fairseq_fp16_activation_big": "float16"}

# Settings of a training, which change no outputs: those of transformer_base, and what other sets have instead.
_BASE: Mapping[str, Any] = {
    "layer_prepostprocess_dropout": 0.1,
    "attention_dropout": 0.1,
    "relu_dropout": 0.1,
    "label_smoothing": 0.1,
    "optimizer": "adam",
    "optimizer_adam_beta1": 0.9,
    "optimizer_adam_beta2": 0.997,
    "optimizer_adam_epsilon": 1e-9,
    "clip_grad_norm": 0.0,
    "learning_rate_schedule": "constant*linear_warmup*rsqrt_decay*rsqrt_hidden_size",
    "learning_rate_warmup_steps": 8000,
    "learning_rate_constant": 2.0,
    "learning_rate_decay_scheme": "noam",
    "learning_rate": 0.2,
}
_BIG = {"layer_prepostprocess_dropout": 0.3}
_V2 = {"optimizer_adam_beta2": 0.98, "learning_rate_schedule": "legacy", "learning_rate_constant": 1.0}
_TPU = {"optimizer": "Adafactor", "learning_rate_schedule": "rsqrt_decay", "learning_rate_warmup_steps": 10000}
_SINGLE = {
    "learning_rate_schedule": "constant*linear_warmup*rsqrt_decay",
    "learning_rate_warmup_steps": 16000,
    "learning_rate_constant": 0.1,
}
_NO_DROPOUT = dict.fromkeys(("layer_prepostprocess_dropout", "attention_dropout", "relu_dropout"), 0.0)
_CLEAN = {**_V2, **_NO_DROPOUT, "label_smoothing": 0.0}
_TALL = {"label_smoothing": 0.0, "clip_grad_norm": 1.0}
_CHANGED: Mapping[str, Mapping[str, Any]] = {
    "transformer_base_v1": {
        **_V2,
        "attention_dropout": 0.0,
        "relu_dropout": 0.0,
        "learning_rate_warmup_steps": 4000,
        "learning_rate": 0.1,
    },
    "transformer_base_v2": _V2,
    "transformer_base_single_gpu": _SINGLE,
    "transformer_base_multistep8": {"optimizer": "multistep_adam"},
    "transformer_parsing_ice": _SINGLE,
    "transformer_parsing_base": {
        "layer_prepostprocess_dropout": 0.2,
        "attention_dropout": 0.2,
        "learning_rate_warmup_steps": 16000,
        "learning_rate": 0.05,
    },
    "transformer_parsing_big": {"learning_rate_warmup_steps": 4000, "learning_rate": 0.05},
    "transformer_dr0": {"layer_prepostprocess_dropout": 0.0},
    **{name: {"layer_prepostprocess_dropout": 0.2} for name in ("transformer_dr2", "transformer_big_dr2")},
    "transformer_ls0": {"label_smoothing": 0.0},
    "transformer_ls2": {"label_smoothing": 0.2},
    **dict.fromkeys(("transformer_clean", "transformer_clean_big"), _CLEAN),
    "transformer_clean_big_tpu": {**_CLEAN, **_TPU},
    **dict.fromkeys(
        (
            *("transformer_big", "transformer_big_bs1", "transformer_relative_big"),
            "transformer_fairseq_fp16_activation_big",
        ),
        _BIG,
    ),
    "transformer_big_single_gpu": {"learning_rate_warmup_steps": 16000},
    **dict.fromkeys(
        (
            *("transformer_tiny_tpu", "transformer_small_tpu", "transformer_tpu", "transformer_packed_tpu"),
            *("transformer_tpu_bf16_activation", "transformer_big_enfr_tpu"),
        ),
        _TPU,
    ),
    "transformer_big_tpu": {**_BIG, **_TPU},
    **dict.fromkeys(("transformer_tall", "transformer_tall_big"), _TALL),
    "transformer_tall_train_tied": {
        **_TALL,
        "optimizer": "true_adam",
        "learning_rate_schedule": "linear_warmup*constant*cosdecay",
        "learning_rate_constant": 0.0002,
    },
}
_OTHERS = ("transformer_cubbitt",)  # not of that file


def training(name: str | None) -> dict[str, Any]:
    """Returns the settings of a training by a set; {} if the set is not known. Other releases may have others."""
    return {} if name not in HEADS or name in _OTHERS else {**_BASE, **_CHANGED.get(name, {})}
