"""The recipes that tensor2tensor's users ran: its HEAD (bafdc1b6, 2023-04-01), which is not the paper's.

Its batch_size is padded tokens of the longer side *per GPU*; ours is for all devices. On the 8 GPUs that its authors
had, 4,096 tokens make batch_tokens = 32,768, and 2,048 make 16,384; micro_batches=8 cuts them as its GPUs did.

What no field can say stays the paper's: positions are interleaved, Adam moves every row of the embeddings (theirs is
LazyAdam), there is no embedding of the target language (docs/paper.md).
"""

from t2t_lite import config
from t2t_lite.hparams.transformer import base
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.registry import register_hparams


@register_hparams
def t2t_base() -> TransformerHParams:
    """tensor2tensor's transformer_base (transformer_base_v3, models/transformer.py:1959)."""
    return config.replace(
        base(),
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
def t2t_big() -> TransformerHParams:
    """tensor2tensor's transformer_big (models/transformer.py:1981): half of base's batch, P_drop 0.3."""
    return config.replace(t2t_base(), d_model=1024, d_ff=4096, num_heads=16, dropout=0.3, batch_tokens=8 * 2048)


@register_hparams
def t2t_big_enfr() -> TransformerHParams:
    """tensor2tensor's transformer_big_enfr (models/transformer.py:2405): d_ff 8,192, three separate embeddings."""
    return config.replace(t2t_big(), d_ff=8192, dropout=0.1, share_embeddings=False, batch_tokens=8 * 4096)
