"""Hparams of a tensor2tensor model: where they are found, and which of them cannot be expressed here.

The shapes of a checkpoint show all sizes except the number of heads. Everything else that changes the model's function
is only in the hparams. They come from hparams.json, which tensor2tensor writes beside its checkpoints, from flags.txt,
or from the user. What sets say that shapes do not show is that of 1.15.7 (models/transformer.py at bafdc1b).
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from t2t_lite.errors import DataError, UsageError, did_you_mean
from t2t_lite.importers import t2t_training

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
    **dict.fromkeys(("transformer_big", "transformer_big_bs1", "transformer_relative_big"), _BIG),
    "transformer_fairseq_fp16_activation_big": _BIG,
    "transformer_big_single_gpu": {"learning_rate_warmup_steps": 16000},
    **dict.fromkeys(
        ("transformer_tiny_tpu", "transformer_small_tpu", "transformer_tpu", "transformer_packed_tpu"), _TPU
    ),
    **dict.fromkeys(("transformer_tpu_bf16_activation", "transformer_big_enfr_tpu"), _TPU),
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

# hparam -> values that can be expressed here. A missing hparam has its default, which can be expressed.
_EXPRESSED: dict[str, tuple[Any, ...]] = {
    "pos": ("timing", "emb", "none", None),
    "self_attention_type": ("dot_product", "dot_product_relative"),
    "norm_type": ("layer",),
    "ffn_layer": ("dense_relu_dense", "conv_hidden_relu"),
    "multiply_embedding_mode": ("sqrt_depth",),
    "prepend_mode": ("none",),
    "unidirectional_encoder": (False,),
    "proximity_bias": (False,),
    "causal_decoder_self_attention": (True,),
    "hard_attention_k": (0,),
    "max_area_width": (1,),
    "max_area_height": (1,),
    "position_features": ("",),
    "symbol_modality_skip_top": (False,),
}
# Other hparams that an import uses, besides those of t2t_training.
_ASKED = (
    *("num_heads", "hidden_size", "filter_size", "num_hidden_layers", "num_encoder_layers", "num_decoder_layers"),
    *("attention_key_channels", "attention_value_channels", "layer_preprocess_sequence", "layer_postprocess_sequence"),
    *("norm_epsilon", "vocab_divisor", "weight_dtype", "activation_dtype", "gpu_automatic_mixed_precision"),
    *("optimizer", "shared_embedding_and_softmax_weights"),
)
_NORMS = {("", "an"): "post", ("n", "a"): "pre"}  # without dropout ("d"), which only training has


@dataclasses.dataclass(frozen=True)
class Known:
    """What is known of a model's hparams.

    hparams: all of them, by name.
    file: where they were read from, or None.
    training_set: the set that settings of the training were taken from, as nothing else says them; or None.
    assumed: hparams that change the model but are not known, with the values assumed for them; and the reason.
    """

    hparams: Mapping[str, Any]
    file: str | None
    training_set: str | None
    assumed: tuple[Mapping[str, Any], str]


def read(folder: Path, hparams_set: str | None, overrides: str | None) -> Known:
    """Reads the hparams beside a checkpoint, from hparams.json or else what flags.txt names, and those of the user.

    Args:
        folder: of the checkpoint.
        hparams_set: the user's name of a set; where there is a file, it may not contradict it.
        overrides: the user's "name=value,..."; these win.

    Raises:
        UsageError: the user's hparams are not known, or contradict the file.
        DataError: the file cannot be read.
    """
    file = next((path for path in (folder / "hparams.json", folder / "flags.txt") if path.is_file()), None)
    if file is not None and file.name == "hparams.json":  # which says all that a set says
        beside, name = _read_json(file), None
    else:
        flags = {} if file is None else _read_flags(file)
        name = flags.get("hparams_set")
        beside = parse(name if name in HEADS else None, flags.get("hparams"))
        name = hparams_set or name
    of_user = parse(None, overrides)
    _check_given(file or folder, beside, hparams_set, of_user)
    said = {**beside, **parse(hparams_set, None), **of_user}
    of_set = {} if name not in HEADS or name in _OTHERS else {**_BASE, **_CHANGED.get(name, {})}
    hparams = {**of_set, **said}
    assumed: tuple[Mapping[str, Any], str] = {}, ""
    if name not in HEADS and (file is None or file.name != "hparams.json"):
        defaults = {key: values[0] for key, values in _EXPRESSED.items()} | {"norm_epsilon": 1e-6}
        why = f"{name}, the set in flags.txt, is not known" if name else "nothing beside the checkpoint says them"
        assumed = {key: value for key, value in defaults.items() if key not in hparams}, why
    return Known(hparams, str(file) if file else None, name if set(of_set) - set(said) else None, assumed)


def parse(hparams_set: str | None, overrides: str | None) -> dict[str, Any]:
    """Returns the hparams that the name of a set and "name=value,..." give.

    Raises:
        UsageError: the set is not known, or a part is not name=value.
    """
    hparams: dict[str, Any] = {}
    if hparams_set:
        if hparams_set not in HEADS:
            raise UsageError(
                f"hparams_set={hparams_set!r} is no Transformer of tensor2tensor that is known here."
                f"{did_you_mean(hparams_set, HEADS)} Copy the training's hparams.json beside the checkpoint, or give "
                "the known set that yours is made from, and in --hparams all that yours changes."
            )
        relative = hparams_set.startswith("transformer_relative")
        hparams["num_heads"] = HEADS[hparams_set]
        hparams["pos"] = None if relative else "timing"
        hparams["self_attention_type"] = "dot_product_relative" if relative else "dot_product"
        if hparams_set in ACTIVATIONS:
            hparams["activation_dtype"] = ACTIVATIONS[hparams_set]
    for part in filter(None, re.split(r",(?![^\[]*\])", overrides or "")):  # a value may be a list
        name, equals, value = part.partition("=")
        if not equals:
            raise UsageError(f"hparams: {part!r} is not name=value.")
        hparams[name.strip()] = _value(value.strip())
    return hparams


def _check_given(file: Path, beside: Mapping[str, Any], hparams_set: str | None, of_user: Mapping[str, Any]) -> None:
    """Raises UsageError if the user gave a name that no import uses, or a set that contradicts the file."""
    names = {*beside, *_EXPRESSED, *_ASKED, *t2t_training.FIELDS, *t2t_training.SLOTS_NEED, *t2t_training.SCHEDULE}
    if unknown := sorted(set(of_user) - names):
        raise UsageError(
            f"hparams: {unknown[0]} is no hparam of tensor2tensor that an import asks for."
            f"{did_you_mean(unknown[0], sorted(names))}"
        )
    for name, value in parse(hparams_set, None).items():
        if name in beside and name not in of_user and beside[name] != value:
            raise UsageError(
                f"hparams_set={hparams_set} has {name}={value}, and {file} says {name}="
                f"{beside[name]}. Leave --hparams_set out; --hparams={name}=VALUE changes what the file says."
            )


def _read_json(file: Path) -> dict[str, Any]:
    try:
        hparams = json.loads(file.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{file} is not JSON, as tensor2tensor writes it: {error}.") from error
    if not isinstance(hparams, dict):
        raise DataError(f"{file} holds no hparams: a list of names and values is needed.")
    return hparams


def _read_flags(file: Path) -> dict[str, str]:
    text = file.read_text("utf-8", errors="replace")  # paths in it may have any encoding, and are not used
    return dict(re.findall(r"^--(\w+)=(.*)$", text, re.MULTILINE))


def check(hparams: Mapping[str, Any]) -> None:
    """Raises DataError, naming them all, if hparams change the model in a way that cannot be expressed here."""
    wrong = [
        f"{name}={hparams[name]} (only {' or '.join(map(str, values))})"
        for name, values in _EXPRESSED.items()
        if name in hparams and hparams[name] not in values
    ]
    if norm(hparams) == "":
        wrong.append(
            f"layer_preprocess_sequence={hparams['layer_preprocess_sequence']} with "
            f"layer_postprocess_sequence={hparams['layer_postprocess_sequence']} (only none with dan, or n with da)"
        )
    if wrong:
        raise DataError(f"This model cannot be expressed here: {'; '.join(wrong)}.")


def norm(hparams: Mapping[str, Any]) -> str | None:
    """Returns "pre" or "post"; "" for an order that cannot be expressed, None if the hparams do not say."""
    names = ("layer_preprocess_sequence", "layer_postprocess_sequence")
    if not all(name in hparams for name in names):
        return None
    before, after = (str(hparams[name] or "").replace("none", "").replace("d", "") for name in names)
    return _NORMS.get((before, after), "")


def _value(text: str) -> Any:
    if text in ("True", "true", "False", "false"):
        return text in ("True", "true")
    if text in ("None", "null"):
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
