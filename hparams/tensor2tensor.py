"""The recipes that tensor2tensor's users ran, from its HEAD (bafdc1b6, 2023-04-01); they are not the paper's.

Its batch_size is padded tokens of the longer side *per GPU*; ours is for all devices. On the 8 GPUs that its authors
had, 4,096 tokens make batch_tokens = 32,768, and 2,048 make 16,384.

The models are its own: with weights that it trained they give its logits, and an update here equals its update
(tests/importers; docs/from_tensor2tensor.md lists the remaining differences). It has 32 vectors for target languages; a
model here has only the one that it uses.
"""

from typing import Any

from t2t_lite import config
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.registry import register_hparams

from .transformer import base

# Of the models that are not its Transformer: basic_params1 (layers/common_hparams.py), and utils/decoding.py:52.
BASIC_PARAMS1: dict[str, Any] = {
    "dropout": 0.2,
    "adam_beta1": 0.85,
    "adam_beta2": 0.997,
    "adam_epsilon": 1e-6,
    "schedule": "constant",
    "clip_norm": 2.0,
    "label_smoothing_over": "others",
    "extra_length": 100,
}


@register_hparams
def t2t_base() -> TransformerHParams:
    """tensor2tensor's transformer_base (transformer_base_v3, models/transformer.py:1959)."""
    return config.replace(
        base(),
        positions="tensor2tensor",  # get_timing_signal_1d of layers/common_attention.py
        source_vector=True,  # use_target_space_embedding of layers/transformer_layers.py
        norm="pre",  # v2, 2017-10-06 (d5bdfcc8), as are the next four
        attention_dropout=0.1,
        relu_dropout=0.1,
        warmup_steps=8000,
        learning_rate_factor=2.0,
        adam_beta2=0.997,  # v3
        label_smoothing_over="others",  # layers/common_layers.py:2073
        batch_tokens=8 * 4096,
        train_steps=250000,  # the default of --train_steps, utils/flags.py
        extra_length=100,  # utils/decoding.py:52
    )


@register_hparams
def t2t_import() -> TransformerHParams:
    """The set that runs of t2t-lite-import are named after; sizes and settings are those of the checkpoint."""
    return config.replace(t2t_base(), extra_length=50)


@register_hparams
def t2t_big() -> TransformerHParams:
    """tensor2tensor's transformer_big (models/transformer.py:1981): half of base's batch, P_drop 0.3."""
    return config.replace(t2t_base(), d_model=1024, d_ff=4096, num_heads=16, dropout=0.3, batch_tokens=8 * 2048)


@register_hparams
def t2t_big_enfr() -> TransformerHParams:
    """tensor2tensor's transformer_big_enfr (models/transformer.py:2405): d_ff 8,192, three separate embeddings."""
    return config.replace(t2t_big(), d_ff=8192, dropout=0.1, share_embeddings=False, batch_tokens=8 * 4096)


@register_hparams
def t2t_relative() -> TransformerHParams:
    """tensor2tensor's transformer_relative: t2t_base with relative positions (Shaw et al., 2018) and no others."""
    return config.replace(t2t_base(), positions="none", max_relative_position=20)
