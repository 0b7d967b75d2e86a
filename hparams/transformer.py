"""The paper's base and big models (Table 3)."""

from t2t_lite import config
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.registry import register_hparams


@register_hparams
def base() -> TransformerHParams:
    """The paper's base model (Table 3, row "base"): 65M parameters, 100,000 steps."""
    return TransformerHParams(micro_batches=8, keep_checkpoints=5, average_checkpoints=5)


@register_hparams
def big() -> TransformerHParams:
    """The paper's big model (Table 3, row "big"): 213M parameters, 300,000 steps, P_drop 0.3."""
    return config.replace(
        base(),
        d_model=1024,
        d_ff=4096,
        num_heads=16,
        dropout=0.3,
        train_steps=300000,
        keep_checkpoints=20,
        average_checkpoints=20,
    )


@register_hparams
def big_enfr() -> TransformerHParams:
    """big for English-French: P_drop 0.1 instead of 0.3 (section 6.1)."""
    return config.replace(big(), dropout=0.1)


@register_hparams
def base_single_gpu() -> TransformerHParams:
    """base with its batch in 2 parts, the largest that fit 24 GB (20 GiB by --describe), to keep one GPU busy.

    base itself gives the same result on one device, in 8 smaller parts. Only the cut differs here: batch, schedule and
    learning rate stay the paper's, unlike in tensor2tensor's set of this name (1,024 tokens, warm-up 16,000).
    """
    return config.replace(base(), micro_batches=2)


@register_hparams
def big_single_gpu() -> TransformerHParams:
    """big with its batch in 4 parts, the largest that fit 24 GB (20 GiB by --describe); see base_single_gpu."""
    return config.replace(big(), micro_batches=4)
