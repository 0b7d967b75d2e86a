"""The paper's base and big models (Table 3)."""

from t2t_lite import config
from t2t_lite.models.transformer_hparams import TransformerHParams
from t2t_lite.registry import register_hparams


@register_hparams
def base() -> TransformerHParams:
    """The paper's base model (Table 3, row "base"): 65M parameters, 100,000 steps."""
    return TransformerHParams(keep_checkpoints=5, average_checkpoints=5)


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
def deep() -> TransformerHParams:
    """base with 18 layers in the encoder, 6 in the decoder, and DeepNorm (Wang et al., 2022).

    With 37,000 pieces it has 101M parameters.
    """
    return config.replace(base(), num_layers=18, num_decoder_layers=6, norm="deep")


@register_hparams
def big_enfr() -> TransformerHParams:
    """big for English-French: P_drop 0.1 instead of 0.3 (section 6.1)."""
    return config.replace(big(), dropout=0.1)
